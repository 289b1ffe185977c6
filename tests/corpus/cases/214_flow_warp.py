"""C214 (after RAFT#113, torchvision#8500, PWC-Net's warp): pixel axes and a validity plane made on the CPU and then moved."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C214",
    "polarity": "positive",
    "kind": "cpu_tensor_then_to_device",
    "hot_lines": [26, 27, 32],
    "fix": "device_kwarg",
    "auto_fix_safe": True,
    "why": "arange and ones have no random state and small integers are exact in every float type, so device= and dtype= give the same numbers",
    "gpu_only": True,
    "hot_share_cpu": 0.15,
    "speedup_cpu": 1.04,
}


class FlowWarp(nn.Module):
    def __init__(self):
        super().__init__()
        self.reach = nn.Parameter(torch.full((2,), 1.5))

    def axes(self, flow):
        xs = torch.arange(flow.shape[-1]).type_as(flow)  # HOT
        ys = torch.arange(flow.shape[-2], dtype=flow.dtype).to(flow.device)  # HOT
        return xs, ys

    def plane(self, image):
        b, _, h, w = image.shape
        return torch.ones(b, 1, h, w).to(image.device)  # HOT

    def forward(self, image, flow):
        h, w = flow.shape[-2:]
        xs, ys = self.axes(flow)
        dx, dy = (flow * self.reach.view(1, 2, 1, 1)).unbind(dim=1)
        grid = torch.stack((2 * (xs + dx) / (w - 1) - 1, 2 * (ys[:, None] + dy) / (h - 1) - 1), dim=-1)
        both = torch.cat((image, self.plane(image)), dim=1)
        warped, seen = F.grid_sample(both, grid, align_corners=True).split((image.size(1), 1), dim=1)
        return warped, (seen > 0.999).sum(dim=(1, 2, 3))


class FlowWarpFixed(FlowWarp):
    def axes(self, flow):
        xs = torch.arange(flow.shape[-1], dtype=flow.dtype, device=flow.device)
        return xs, torch.arange(flow.shape[-2], dtype=flow.dtype, device=flow.device)

    def plane(self, image):
        b, _, h, w = image.shape
        return torch.ones(b, 1, h, w, device=image.device)


def build():
    torch.manual_seed(0)
    return FlowWarp(), (torch.rand(1, 1, 14, 18), torch.randn(1, 2, 14, 18))


def build_fixed():
    return FlowWarpFixed(), build()[1]
