"""C1013: a z-buffer filled point by point in pure Python."""
import torch
from torch import nn

expected = {
    "case": "C1013",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [32, 33],
    "fix": "scatter_reduce_amin",
    "auto_fix_safe": False,
    "why": "each turn reads what earlier turns wrote; a minimum does not depend on the order (except with NaN), which needs a human look",
    "hot_share_cpu": 0.97,
    "speedup_cpu": 144.09,
}


class DepthSplat(nn.Module):
    def __init__(self, height=24, width=32, far=100.0):
        super().__init__()
        self.size = height, width
        self.far = far

    def forward(self, points):
        H, W = self.size
        z = points[:, 2]
        u = (points[:, 0] * W).long().clamp(0, W - 1)
        v = (points[:, 1] * H).long().clamp(0, H - 1)
        buf = torch.full((H, W), self.far)
        for p in range(len(points)):
            # keep the nearest point of every pixel
            if z[p] < buf[v[p], u[p]]:  # HOT
                buf[v[p], u[p]] = z[p]  # HOT
        return buf, buf < self.far


class DepthSplatFixed(DepthSplat):
    def forward(self, points):
        H, W = self.size
        z = points[:, 2]
        u = (points[:, 0] * W).long().clamp(0, W - 1)
        v = (points[:, 1] * H).long().clamp(0, H - 1)
        buf = torch.full((H * W,), self.far).scatter_reduce(0, v * W + u, z, "amin").view(H, W)
        return buf, buf < self.far


def build():
    torch.manual_seed(0)
    scale = torch.tensor([1.0, 1.0, 40.0])
    return DepthSplat(), (torch.rand(500, 3) * scale,)


def build_fixed():
    return DepthSplatFixed(), build()[1]
