"""C652 negative (after Lanczos and Arnoldi routines in spectral graph code): an orthonormal Krylov basis of a path graph."""
import torch
from torch import nn

expected = {
    "case": "C652",
    "polarity": "negative",
    "kind": "cat_in_loop",
    "hot_lines": [37],
    "must_not": "offer a safe fix that collects the rows and concatenates them after the loop",
    "auto_fix_safe": False,
    "why": "every round orthogonalises against all rows so far, which the helper reads from the attribute",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.32,
    "speedup_cpu": None,
}


class KrylovBasis(nn.Module):
    def __init__(self, rank=24):
        super().__init__()
        self.rank = rank
        self.edge = nn.Parameter(torch.tensor(-0.5, dtype=torch.float64), requires_grad=False)
        self.rows = None

    def apply_graph(self, v):
        flow = v.clone()
        flow[1:] += self.edge * v[:-1]
        flow[:-1] += self.edge * v[1:]
        return flow

    def orthogonalise(self, v):
        v = torch.addmv(v, self.rows.t(), self.rows @ v, alpha=-1)
        return v / torch.linalg.vector_norm(v)

    def extend(self, v):
        self.rows = torch.cat([self.rows, v.unsqueeze(0)], dim=0)  # LOOKS-HOT

    def forward(self, seed):
        v = seed / torch.linalg.vector_norm(seed)
        self.rows = v.unsqueeze(0)
        while self.rows.size(0) < self.rank:
            v = self.orthogonalise(self.apply_graph(v))
            self.extend(v)
        return self.rows


class KrylovBasisNaive(KrylovBasis):
    def forward(self, seed):
        v = seed / torch.linalg.vector_norm(seed)
        self.rows = v.unsqueeze(0)
        rows = [v]
        for _ in range(self.rank - 1):
            v = self.orthogonalise(self.apply_graph(v))
            rows.append(v)
        return torch.stack(rows)


def build():
    torch.manual_seed(0)
    return KrylovBasis(), (torch.randn(20000, dtype=torch.float64),)


def build_naive_fix():
    return KrylovBasisNaive(), build()[1]
