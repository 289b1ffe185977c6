"""C155 negative (after the slicing idea of diffusers#407): three wide heads run in turn so that only one hidden tensor is alive."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C155",
    "polarity": "negative",
    "kind": "head_loop",
    "hot_lines": [29],
    "must_not": "flag_or_fix",
    "auto_fix_safe": False,
    "why": "three iterations of large matmuls are bound by arithmetic, not by launches; batching them gains nothing and triples the hidden memory",
    "naive_fix_outcome": "equal_no_gain",
    "hot_share_cpu": 0.88,
    "speedup_cpu": 1.11,
}


class WideHeads(nn.Module):
    def __init__(self, heads=3, dim=256, hidden=512):
        super().__init__()
        self.up = nn.Parameter(torch.randn(heads, dim, hidden) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(heads, hidden, dim) * hidden**-0.5)

    def spread(self, x):
        mixed = torch.empty_like(x)
        for h, (up, down) in enumerate(zip(self.up, self.down)):
            mixed[h] = F.silu(x[h] @ up) @ down  # LOOKS-HOT
        return mixed

    def forward(self, x):
        return x + self.spread(x)


class WideHeadsNaive(WideHeads):
    def spread(self, x):
        return torch.bmm(F.silu(torch.bmm(x, self.up)), self.down)


def build():
    torch.manual_seed(30)
    return WideHeads(), (torch.randn(3, 96, 256),)


def build_naive_fix():
    slow, inputs = build()
    naive = WideHeadsNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
