"""C1016: a (B, 1, H, W) mask broadcast into masked_select only to average the result."""
import torch
from torch import nn

expected = {
    "case": "C1016",
    "polarity": "positive",
    "kind": "broadcast_masked_select",
    "hot_lines": [20],
    "fix": "where_then_sum_over_count",
    "auto_fix_safe": True,
    "why": "the selected values are only summed; where keeps NaN targets out (a product would not), and an empty mask stays 0/0 = NaN",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 1.57,
}


def masked_l1(pred, target, valid):
    gap = torch.abs(pred - target)
    picked = torch.masked_select(gap, valid)  # HOT
    return picked.mean()


def masked_l1_fast(pred, target, valid):
    gap = torch.abs(pred - target)
    return torch.where(valid, gap, 0.0).sum() / (valid.sum() * gap.size(1))


class DepthTrainer(nn.Module):
    criterion = staticmethod(masked_l1)

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, pred, target):
        valid = (target[:, :1] > 0.1) & (target[:, :1] < 0.8)
        return self.criterion(pred * self.scale, target, valid=valid)


class DepthTrainerFixed(DepthTrainer):
    criterion = staticmethod(masked_l1_fast)


def build():
    torch.manual_seed(0)
    return DepthTrainer(), (torch.rand(4, 3, 160, 160), torch.rand(4, 3, 160, 160))


def build_fixed():
    slow, inputs = build()
    fast = DepthTrainerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
