"""C505 (after satellite image time-series models with one head per target): heads see the series up to the last useful date."""
import torch
from torch import nn

expected = {
    "case": "C505",
    "polarity": "positive",
    "kind": "loop_invariant_host_sync",
    "hot_lines": [31],
    "fix": "hoist_invariant_read",
    "auto_fix_safe": True,
    "why": "neither the cloud cover nor the limit changes between heads; the heads are linear layers without side effects",
    "hot_share_cpu": 0.73,
    "speedup_cpu": 2.48,
}


class FieldMonitor(nn.Module):
    """Crop, yield and water-stress estimates from per-pixel reflectance, clear dates packed to the front."""

    TARGETS = {"crop": 7, "yield": 1, "stress": 3, "sowing": 2, "harvest": 2}

    def __init__(self, dates=240, cloud_limit=0.4):
        super().__init__()
        self.cloud_limit = cloud_limit
        self.heads = nn.ModuleDict({name: nn.Linear(2, n) for name, n in self.TARGETS.items()})

    def forward(self, red, cover):
        outputs = []
        for name, head in self.heads.items():
            usable = int((cover < self.cloud_limit).sum(dim=1).max().item())  # HOT
            season = red[:, :usable]
            stats = torch.stack([season.mean(dim=1), season[:, 0]], dim=-1)
            out = head(stats)
            outputs.append(out.log_softmax(-1) if name == "crop" else out)
        return torch.cat(outputs, dim=-1)


class FieldMonitorFixed(FieldMonitor):
    def forward(self, red, cover):
        outputs = []
        usable = int((cover < self.cloud_limit).sum(dim=1).max().item())
        for name, head in self.heads.items():
            season = red[:, :usable]
            stats = torch.stack([season.mean(dim=1), season[:, 0]], dim=-1)
            out = head(stats)
            outputs.append(out.log_softmax(-1) if name == "crop" else out)
        return torch.cat(outputs, dim=-1)


def build():
    torch.manual_seed(0)
    return FieldMonitor(), (torch.rand(2000, 240), torch.rand(2000, 240))


def build_fixed():
    slow, inputs = build()
    fast = FieldMonitorFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
