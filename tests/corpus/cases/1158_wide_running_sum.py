"""C1158 negative: each level goes to float64 and back for its running sums."""
import torch
from torch import nn

expected = {
    "case": "C1158",
    "polarity": "negative",
    "kind": "repeated_dtype_cast",
    "hot_lines": [31, 33],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the difference of two large running sums loses all digits in float32; the detour over float64 is the point",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.11,
    "speedup_cpu": None,
}


class MovingSpread(nn.Module):
    def __init__(self, levels=4, window=8):
        super().__init__()
        self.levels, self.window = levels, window

    def running(self, x):
        total = x.cumsum(dim=-1)
        return (total[..., self.window :] - total[..., : -self.window]) / self.window

    def forward(self, level):
        outs = []
        for _ in range(self.levels):
            wide = level.double()  # LOOKS-HOT
            spread = self.running(wide * wide) - self.running(wide).square()
            outs.append(spread.to(level.dtype))  # LOOKS-HOT
            level = level[..., ::2] + 1.0
        return outs


class MovingSpreadNaive(MovingSpread):
    def forward(self, level):
        outs = []
        for _ in range(self.levels):
            outs.append(self.running(level * level) - self.running(level).square())
            level = level[..., ::2] + 1.0
        return outs


def build():
    torch.manual_seed(0)
    return MovingSpread(), (torch.randn(16, 4096) + 50.0,)


def build_naive_fix():
    return MovingSpreadNaive(), build()[1]
