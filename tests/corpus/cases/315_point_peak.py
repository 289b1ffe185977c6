"""C315 (after detectron2#5224, semiring-einsum#20): max over the points of a cloud pays for indices nobody reads."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C315",
    "polarity": "positive",
    "kind": "unused_reduction_indices",
    "hot_lines": [26],
    "fix": "amax",
    "auto_fix_safe": True,
    "why": "no_grad around the forward: no gradient can be split between ties, and the values are equal",
    "hot_share_cpu": 0.53,
    "speedup_cpu": 1.99,
}


class PointPeak(nn.Module):
    def __init__(self, width=96, classes=10):
        super().__init__()
        self.lift = nn.Linear(3, width)
        self.top = nn.Linear(2 * width, classes)

    def pool(self, feats):
        peak, _ = torch.max(feats, dim=1, keepdim=True)  # HOT
        return peak

    @torch.no_grad()
    def forward(self, clouds):
        feats = F.relu(self.lift(clouds))
        peak = self.pool(feats)
        low = feats.mean(dim=1, keepdim=True)
        return self.top(torch.cat((peak, low), dim=-1)).squeeze(1)


class PointPeakFixed(PointPeak):
    def pool(self, feats):
        return torch.amax(feats, dim=1, keepdim=True)


def build():
    torch.manual_seed(0)
    return PointPeak(), (torch.randn(16, 1024, 3),)


def build_fixed():
    slow, inputs = build()
    fast = PointPeakFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
