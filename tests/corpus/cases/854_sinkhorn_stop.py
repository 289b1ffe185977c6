"""C854 negative (after dfdazac/wassdistance layers.py and wl-zhao/DIML): an .item() in the loop that ends it long before max_iter."""
import torch
import torch.nn as nn

expected = {
    "case": "C854",
    "polarity": "negative",
    "kind": "item_in_loop",
    "hot_lines": [31, 42],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the value read back is computed in this round and stops the loop; without the read all max_iter rounds have to run",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.13,
    "speedup_cpu": 0.09,
}


class SinkhornDistance(nn.Module):
    def __init__(self, eps=0.5, max_iter=100, thresh=1e-5):
        super(SinkhornDistance, self).__init__()
        self.eps = eps
        self.max_iter = max_iter
        self.thresh = thresh

    def M(self, C, u, v):
        return (-C + u.unsqueeze(-1) + v.unsqueeze(-2)) / self.eps

    def done(self, u, u1):
        err = (u - u1).abs().sum(-1).mean()
        return err.item() < self.thresh  # LOOKS-HOT

    def forward(self, x, y):
        C = (x.unsqueeze(-2) - y.unsqueeze(-3)).square().sum(-1)
        log_mu = -torch.log(torch.full(C.shape[:-1], float(C.size(-2))))
        log_nu = -torch.log(torch.full(C.shape[:-2] + C.shape[-1:], float(C.size(-1))))
        u, v = torch.zeros_like(log_mu), torch.zeros_like(log_nu)
        for i in range(self.max_iter):
            u1 = u  # useful to check the update
            u = self.eps * (log_mu - torch.logsumexp(self.M(C, u, v), dim=-1)) + u
            v = self.eps * (log_nu - torch.logsumexp(self.M(C, u, v), dim=-2)) + v
            if self.done(u, u1):  # LOOKS-HOT
                break
        pi = torch.exp(self.M(C, u, v))
        return torch.sum(pi * C, dim=(-2, -1)), pi


class SinkhornDistanceNaive(SinkhornDistance):
    def done(self, u, u1):
        return False


def build():
    torch.manual_seed(0)
    return SinkhornDistance(), (torch.rand(4, 16, 2), torch.rand(4, 16, 2))


def build_naive_fix():
    return SinkhornDistanceNaive(), build()[1]
