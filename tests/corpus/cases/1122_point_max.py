"""C1122: max over all points returns positions that nobody reads."""
import torch
from torch import nn

expected = {
    "case": "C1122",
    "polarity": "positive",
    "kind": "unused_reduction_indices",
    "hot_lines": [25],
    "fix": "amax",
    "auto_fix_safe": False,
    "why": "equal values, but amax spreads the gradient over ties where max picks one of them",
    "hot_share_cpu": 0.57,
    "speedup_cpu": 2.43,
}


class PointGlobal(nn.Module):
    def __init__(self, in_dim=3, width=64, out=10):
        super().__init__()
        self.lift = nn.Conv1d(in_dim, width, kernel_size=1)
        self.cls = nn.Linear(width, out)

    def pool(self, feats):
        best, _ = torch.max(feats, 2, keepdim=False)  # HOT
        return best

    def forward(self, pts):
        feats = self.lift(pts)
        return self.cls(self.pool(feats))


class PointGlobalFixed(PointGlobal):
    def pool(self, feats):
        return torch.amax(feats, dim=2)


def build():
    torch.manual_seed(0)
    return PointGlobal(), (torch.randn(8, 3, 2048),)


def build_fixed():
    slow, inputs = build()
    fast = PointGlobalFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
