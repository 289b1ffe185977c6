"""C973 negative (after locuslab/deq and the implicit-layers tutorial, forward_iteration): .item() decides when the solver stops."""
import torch
from torch import nn

expected = {
    "case": "C973",
    "polarity": "negative",
    "kind": "host_sync_item",
    "hot_lines": [33],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the residual ends the iteration; without the read all max_iter rounds run, which costs more than the sync",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.37,
    "speedup_cpu": 0.22,
}


class TanhCell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lin = nn.Linear(width, width, bias=False)
        nn.init.orthogonal_(self.lin.weight, gain=0.3)

    def forward(self, z, x):
        return torch.tanh(self.lin(z) + x)


def forward_iteration(f, x0, max_iter=80, tol=1e-6):
    z = f(x0)
    for _ in range(max_iter):
        z_prev, z = z, f(z)
        res = ((z - z_prev).norm() / (1e-5 + z.norm())).item()  # LOOKS-HOT
        if res < tol:
            break
    return z


def forward_iteration_naive(f, x0, max_iter=80, tol=1e-6):
    z = f(x0)
    for _ in range(max_iter):
        z = f(z)
    return z


class DEQFixedPoint(nn.Module):
    def __init__(self, solver, width=48):
        super().__init__()
        self.f = TanhCell(width)
        self.solver = solver

    def forward(self, x):
        with torch.no_grad():
            z = self.solver(lambda z: self.f(z, x), torch.zeros_like(x))
        return self.f(z, x)


def build():
    torch.manual_seed(0)
    return DEQFixedPoint(forward_iteration), (torch.randn(32, 48),)


def build_naive_fix():
    slow, inputs = build()
    naive = DEQFixedPoint(forward_iteration_naive)
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
