"""C846 (after pytorch/vision#8500 on RAFT, SoftRas#50): look-up offsets and start grid laid out on the CPU, then moved, in each forward."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C846",
    "polarity": "positive",
    "kind": "cpu_tensor_then_to_device",
    "hot_lines": [27, 28, 31, 33],
    "fix": "device_kwarg",
    "auto_fix_safe": True,
    "why": "linspace and arange have no random state; with device= at creation they (and their meshgrid) never leave the device",
    "gpu_only": True,
    "hot_share_cpu": 0.06,
    "speedup_cpu": 1.01,
}


class FlowRefiner(nn.Module):
    def __init__(self, radius=3, iters=4):
        super().__init__()
        self.radius, self.iters = radius, iters
        self.update = nn.Conv2d((2 * radius + 1) ** 2, 2, 3, padding=1)

    def coords_grid(self, ht, wd, device):
        coords = torch.meshgrid(torch.arange(ht), torch.arange(wd), indexing="ij")  # HOT
        return torch.stack(coords[::-1], dim=0).float()[None].to(device)  # HOT

    def window(self, coords):
        d = torch.linspace(-self.radius, self.radius, 2 * self.radius + 1)  # HOT
        delta = torch.stack(torch.meshgrid(d, d, indexing="ij"), dim=-1)
        return delta.to(coords.device)  # HOT

    def lookup(self, corr, coords):
        b, _, h, w = coords.shape
        pts = coords.permute(0, 2, 3, 1).reshape(b * h * w, 1, 1, 2) + self.window(coords)
        pts = 2 * pts / (h - 1) - 1
        return F.grid_sample(corr, pts, align_corners=True).view(b, h, w, -1).permute(0, 3, 1, 2)

    def forward(self, fmap1, fmap2):
        b, c, h, w = fmap1.shape
        corr = fmap1.flatten(2).transpose(1, 2) @ fmap2.flatten(2) / c**0.5
        corr = corr.reshape(b * h * w, 1, h, w)
        coords0 = coords1 = self.coords_grid(h, w, fmap1.device).expand(b, -1, -1, -1)
        for _ in range(self.iters):
            coords1 = coords1.detach() + self.update(self.lookup(corr, coords1))
        return coords1 - coords0


class FlowRefinerFixed(FlowRefiner):
    def coords_grid(self, ht, wd, dev):
        coords = torch.meshgrid(torch.arange(ht, device=dev), torch.arange(wd, device=dev), indexing="ij")
        return torch.stack(coords[::-1], dim=0).float()[None]

    def window(self, coords):
        d = torch.linspace(-self.radius, self.radius, 2 * self.radius + 1, device=coords.device)
        return torch.stack(torch.meshgrid(d, d, indexing="ij"), dim=-1)


def build():
    torch.manual_seed(0)
    return FlowRefiner(), (torch.randn(1, 16, 12, 12), torch.randn(1, 16, 12, 12))


def build_fixed():
    slow, inputs = build()
    fast = FlowRefinerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
