"""C1108: the sampling grid of a flow warp is put together on the CPU and then copied over."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1108",
    "polarity": "positive",
    "kind": "cpu_tensor_then_to_device",
    "hot_lines": [21, 22, 23, 30],
    "fix": "device_kwarg",
    "auto_fix_safe": True,
    "why": "linspace has no random state, and expand and stack just follow the device of their inputs",
    "gpu_only": True,
    "hot_share_cpu": 0.06,
    "speedup_cpu": 0.99,
}


def pixel_grid(height, width):
    ys = torch.linspace(-1, 1, height)  # HOT
    xs = torch.linspace(-1, 1, width)  # HOT
    return torch.stack((xs.expand(height, width), ys[:, None].expand(height, width)), dim=-1)  # HOT


class FlowWarp(nn.Module):
    def forward(self, feat, flow):
        n, _, h, w = feat.size()
        grid = pixel_grid(h, w)
        grid = grid.to(feat.device)  # HOT
        step = (flow[:, 0] * (2.0 / max(w - 1, 1)), flow[:, 1] * (2.0 / max(h - 1, 1)))
        where = grid + torch.stack(step, dim=-1)
        return F.grid_sample(feat, where, mode="bilinear", align_corners=True)


class FlowWarpFixed(nn.Module):
    def forward(self, feat, flow):
        n, _, h, w = feat.size()
        ys = torch.linspace(-1, 1, h, device=feat.device)
        xs = torch.linspace(-1, 1, w, device=feat.device)
        grid = torch.stack((xs.expand(h, w), ys[:, None].expand(h, w)), dim=-1)
        step = (flow[:, 0] * (2.0 / max(w - 1, 1)), flow[:, 1] * (2.0 / max(h - 1, 1)))
        where = grid + torch.stack(step, dim=-1)
        return F.grid_sample(feat, where, mode="bilinear", align_corners=True)


def build():
    torch.manual_seed(0)
    return FlowWarp(), (torch.randn(2, 8, 96, 128), torch.randn(2, 2, 96, 128))


def build_fixed():
    return FlowWarpFixed(), build()[1]
