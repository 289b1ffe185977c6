"""C1153 negative: a fixed-point solver reads its residual to know when to stop."""
import torch
from torch import nn

expected = {
    "case": "C1153",
    "polarity": "negative",
    "kind": "host_sync_item",
    "hot_lines": [30],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the value ends the loop; without the read all rounds run, and the reported count and the result are others",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.20,
    "speedup_cpu": None,
}


class FixedPoint(nn.Module):
    def __init__(self, dim=96, tol=1e-3, max_iter=200):
        super().__init__()
        self.w = nn.Linear(dim, dim)
        self.tol, self.max_iter = tol, max_iter

    @torch.no_grad()
    def forward(self, x):
        z, used = torch.zeros_like(x), 0
        while used < self.max_iter:
            new = torch.tanh(0.5 * self.w(z) + x)
            residual = (new - z).norm().item()  # LOOKS-HOT
            z, used = new, used + 1
            if residual < self.tol:
                break
        return z, used


class FixedPointNaive(FixedPoint):
    @torch.no_grad()
    def forward(self, x):
        z, used = torch.zeros_like(x), 0
        while used < self.max_iter:
            z = torch.tanh(0.5 * self.w(z) + x)
            used += 1
        return z, used


def build():
    torch.manual_seed(0)
    return FixedPoint(), (torch.randn(384, 96),)


def build_naive_fix():
    slow, inputs = build()
    naive = FixedPointNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
