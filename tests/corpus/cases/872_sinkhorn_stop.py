"""C872 negative (after wl-zhao/DIML utilities/diml.py, dfdazac/wassdistance): the scalar read in the Sinkhorn loop is what ends it early."""
import torch
import torch.nn as nn

expected = {
    "case": "C872",
    "polarity": "negative",
    "kind": "host_sync_item",
    "hot_lines": [33],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "err.item() stops after a handful of rounds; without the read all max_iter rounds run for the same plan",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.01,
    "speedup_cpu": 0.08,
}


class SinkhornSimilarity(nn.Module):
    def __init__(self, eps=0.5, thresh=1e-6, max_iter=100):
        super().__init__()
        self.eps, self.thresh, self.max_iter = eps, thresh, max_iter

    def plan(self, K, u, v):
        r = torch.ones_like(u)
        c = torch.ones_like(v)
        Kt = K.transpose(1, 2)
        for _ in range(self.max_iter):
            r0 = r
            r = u / torch.matmul(K, c.unsqueeze(-1)).squeeze(-1)
            c = v / torch.matmul(Kt, r.unsqueeze(-1)).squeeze(-1)
            err = (r - r0).abs().mean()
            if err.item() < self.thresh:  # LOOKS-HOT
                break
        return r.unsqueeze(-1) * K * c.unsqueeze(-2)

    def forward(self, anchor, bank):
        sim = torch.einsum("cm,ncs->nsm", anchor, bank)
        n, s, m = sim.shape
        K = torch.exp((sim - 1.0) / self.eps)
        u = sim.new_full((n, s), 1.0 / s)
        v = sim.new_full((n, m), 1.0 / m)
        T = self.plan(K, u, v)
        return torch.sum(T * sim, dim=(1, 2))


class SinkhornSimilarityNaive(SinkhornSimilarity):
    def plan(self, K, u, v):
        r, c = torch.ones_like(u), torch.ones_like(v)
        Kt = K.transpose(1, 2)
        for _ in range(self.max_iter):
            r = u / torch.matmul(K, c.unsqueeze(-1)).squeeze(-1)
            c = v / torch.matmul(Kt, r.unsqueeze(-1)).squeeze(-1)
        return r.unsqueeze(-1) * K * c.unsqueeze(-2)


def build():
    torch.manual_seed(0)
    anchor = nn.functional.normalize(torch.randn(32, 16), dim=0)
    bank = nn.functional.normalize(torch.randn(12, 32, 16), dim=1)
    return SinkhornSimilarity(), (anchor, bank)


def build_naive_fix():
    return SinkhornSimilarityNaive(), build()[1]
