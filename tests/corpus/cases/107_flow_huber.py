"""C107 (after optical-flow losses with a threshold per image): a Huber loss whose torch.where runs image by image."""
import torch
from torch import nn

expected = {
    "case": "C107",
    "polarity": "positive",
    "kind": "batch_loop_where",
    "hot_lines": [26, 27, 28],
    "fix": "broadcast_per_sample_parameter",
    "auto_fix_safe": True,
    "why": "all images have one shape; the threshold broadcasts as (B, 1, 1, 1) and the mean runs over the other dimensions",
    "hot_share_cpu": 0.95,
    "speedup_cpu": 22.05,
}


class FlowHuber(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor([0.9, 1.1]))

    def robust(self, gap, delta):
        losses = []
        for err, d in zip(gap.split(1), delta.split(1)):
            near = 0.5 * err.square()  # HOT
            far = d * (err - 0.5 * d)  # HOT
            losses.append(torch.where(err <= d, near, far).mean())  # HOT
        return torch.stack(losses)

    def forward(self, flow, truth, delta):
        gap = (flow * self.gain[:, None, None] - truth).abs()
        return self.robust(gap, delta)


class FlowHuberFixed(FlowHuber):
    def robust(self, gap, delta):
        d = delta.reshape(-1, 1, 1, 1)
        return torch.where(gap <= d, 0.5 * gap.square(), d * (gap - 0.5 * d)).mean((1, 2, 3))


def build():
    torch.manual_seed(17)
    return FlowHuber(), (torch.randn(40, 2, 9, 7), torch.randn(40, 2, 9, 7), torch.rand(40) + 0.5)


def build_fixed():
    return FlowHuberFixed(), build()[1]
