"""C1053 negative: a keep mask updated row by row, each row asking the mask itself."""
import torch
from torch import nn

expected = {
    "case": "C1053",
    "polarity": "negative",
    "kind": "mask_loop",
    "hot_lines": [33],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "a box that was dropped by an earlier row must not drop others; comparing all pairs at once drops too many (that is Fast NMS)",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.94,
    "speedup_cpu": None,
}


class GreedyKeep(nn.Module):
    def __init__(self, threshold=0.4):
        super().__init__()
        self.threshold = threshold

    def overlap(self, lo, hi):
        inter = (torch.minimum(hi[:, None], hi) - torch.maximum(lo[:, None], lo)).clamp(min=0)
        return inter / ((hi - lo)[:, None] + (hi - lo) - inter)

    def forward(self, centre, score):
        centre = centre[score.argsort(descending=True)]
        close = self.overlap(centre - 0.03, centre + 0.03) > self.threshold
        keep = torch.ones_like(centre, dtype=torch.bool)
        for i in range(len(centre) - 1):
            keep[i + 1 :] &= ~(close[i, i + 1 :] & keep[i])  # LOOKS-HOT
        return keep


class GreedyKeepNaive(GreedyKeep):
    def forward(self, centre, score):
        centre = centre[score.argsort(descending=True)]
        close = self.overlap(centre - 0.03, centre + 0.03) > self.threshold
        return ~close.triu(diagonal=1).any(dim=0)


def build():
    torch.manual_seed(0)
    return GreedyKeep(), (torch.rand(150), torch.rand(150))


def build_naive_fix():
    return GreedyKeepNaive(), build()[1]
