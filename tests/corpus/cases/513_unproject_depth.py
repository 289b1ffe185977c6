"""C513 (after monocular depth and optical flow repositories): depth maps are lifted to camera-space points over a pixel grid."""
import torch
from torch import nn

expected = {
    "case": "C513",
    "polarity": "positive",
    "kind": "cpu_tensor_then_to_device",
    "hot_lines": [27, 28, 29],
    "fix": "device_at_creation",
    "auto_fix_safe": True,
    "why": "pixel numbers are exact in float32; made on the device of the depth map and broadcast, they need neither cast nor copy",
    "hot_share_cpu": 0.53,
    "speedup_cpu": 5.36,
}


class LiftDepth(nn.Module):
    """(B, 1, H, W) depth -> (B, 3, H, W) points, with refinable intrinsics."""

    def __init__(self, focal=120.0):
        super().__init__()
        self.focal = nn.Parameter(torch.tensor([focal, focal]))

    def pixels(self, depth):
        b, _, h, w = depth.shape
        u = torch.arange(0, w).view(1, 1, 1, w).repeat(b, 1, h, 1)  # HOT
        v = torch.arange(0, h).view(1, 1, h, 1).repeat(b, 1, 1, w)  # HOT
        grid = torch.cat((u, v), dim=1).float().to(depth.device)  # HOT
        return grid[:, :1], grid[:, 1:]

    def forward(self, depth):
        u, v = self.pixels(depth)
        fx, fy = self.focal
        x = (u - depth.size(-1) / 2) * depth / fx
        y = (v - depth.size(-2) / 2) * depth / fy
        return torch.cat((x, y, depth), dim=1)


class LiftDepthFixed(LiftDepth):
    def pixels(self, depth):
        h, w = depth.shape[-2:]
        u = torch.arange(w, dtype=torch.float32, device=depth.device)
        v = torch.arange(h, dtype=torch.float32, device=depth.device)
        return u, v.unsqueeze(1)


def build():
    torch.manual_seed(0)
    return LiftDepth(), (torch.rand(6, 1, 240, 320) + 0.5,)


def build_fixed():
    slow, inputs = build()
    fast = LiftDepthFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
