"""D712 (kind of project: event cameras, reconstruction from a voxel grid): an empty grid is made by default and then moved to the events."""
import torch
from torch import nn

expected = {
    "case": "D712",
    "polarity": "positive",
    "kind": "cpu_tensor_then_to_device",
    "hot_lines": [26],
    "fix": "create_with_device_and_dtype",
    "auto_fix_safe": True,
    "why": "zeros are the same whatever device and dtype they are made with",
    "hot_share_cpu": 0.66,
    "speedup_cpu": 1.66,
}


class VoxelGrid(nn.Module):
    """Spreads polarities over the two nearest time bins."""

    def __init__(self, bins=5, height=180, width=240):
        super().__init__()
        self.bins, self.height, self.width = bins, height, width

    def empty(self, events):
        return torch.zeros(len(events), self.bins, self.height * self.width).to(events)  # HOT

    def forward(self, events):
        t, x, y, polarity = events.unbind(dim=-1)
        t = (t - t[:, :1]) / (t[:, -1:] - t[:, :1]) * (self.bins - 1)
        left = t.floor().clamp(max=self.bins - 2)
        pixel = left * (self.height * self.width) + y * self.width + x
        grid = self.empty(events).flatten(1)
        grid.scatter_add_(1, pixel.long(), polarity * (1 - (t - left)))
        grid.scatter_add_(1, pixel.long() + self.height * self.width, polarity * (t - left))
        return grid.view(len(events), self.bins, self.height, self.width)


class VoxelGridFixed(VoxelGrid):
    def empty(self, events):
        return torch.zeros(len(events), self.bins, self.height * self.width, device=events.device, dtype=events.dtype)


def recording(samples=12, n=2000):
    t = torch.rand(samples, n, dtype=torch.float64).sort(dim=1).values
    x, y = torch.randint(0, 240, (samples, n)), torch.randint(0, 180, (samples, n))
    return torch.stack([t, x, y, torch.randint(0, 2, (samples, n)) * 2 - 1], dim=-1)


def build():
    torch.manual_seed(0)
    return VoxelGrid(), (recording(),)


def build_fixed():
    torch.manual_seed(0)
    return VoxelGridFixed(), (recording(),)
