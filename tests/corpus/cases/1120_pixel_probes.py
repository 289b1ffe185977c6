"""C1120: each probe of a frame upcasts the same uint8 pixels for itself."""
import torch
from torch import nn

expected = {
    "case": "C1120",
    "polarity": "positive",
    "kind": "repeated_dtype_cast",
    "hot_lines": [24],
    "fix": "hoist_cast",
    "auto_fix_safe": True,
    "why": "pixels is not written between the probes, so one float32 copy serves all of them with the same bits",
    "hot_share_cpu": 1.00,
    "speedup_cpu": 7.71,
}


class PixelProbes(nn.Module):
    def __init__(self, width=64, outputs=("glare", "blur", "rain", "night", "snow", "dust")):
        super().__init__()
        self.probes = nn.ModuleDict({name: nn.Linear(width, 1) for name in outputs})

    def forward(self, pixels):
        scores = {name: probe(pixels.float()).mean(dim=1) for name, probe in self.probes.items()}  # HOT
        return list(scores.values())


class PixelProbesFixed(PixelProbes):
    def forward(self, pixels):
        wide = pixels.float()
        scores = {name: probe(wide).mean(dim=1) for name, probe in self.probes.items()}
        return list(scores.values())


def build():
    torch.manual_seed(0)
    return PixelProbes(), (torch.randint(0, 256, (4, 2500, 64), dtype=torch.uint8),)


def build_fixed():
    slow, inputs = build()
    fast = PixelProbesFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
