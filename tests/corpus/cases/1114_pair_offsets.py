"""C1114: both sides of all pairs are written out with repeat before a subtraction."""
import torch
from torch import nn

expected = {
    "case": "C1114",
    "polarity": "positive",
    "kind": "repeat_to_expand",
    "hot_lines": [25, 26],
    "fix": "expand",
    "auto_fix_safe": True,
    "why": "both repeated dims have size 1 and the copies are only read by an out-of-place subtraction that broadcasts anyway",
    "hot_share_cpu": 0.29,
    "speedup_cpu": 2.31,
}


class PairEnergy(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.metric = nn.Parameter(torch.rand(dim))

    def forward(self, pos):
        b, n, d = pos.shape
        left = pos.unsqueeze(2).repeat(1, 1, n, 1)  # HOT
        right = pos.unsqueeze(1).repeat(1, n, 1, 1)  # HOT
        gap = left - right
        return (gap * gap) @ self.metric


class PairEnergyFixed(PairEnergy):
    def forward(self, pos):
        b, n, d = pos.shape
        left = pos.unsqueeze(2).expand(-1, -1, n, -1)
        right = pos.unsqueeze(1).expand(-1, n, -1, -1)
        gap = left - right
        return (gap * gap) @ self.metric


def build():
    torch.manual_seed(0)
    return PairEnergy(), (torch.randn(4, 96, 32),)


def build_fixed():
    slow, inputs = build()
    fast = PairEnergyFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
