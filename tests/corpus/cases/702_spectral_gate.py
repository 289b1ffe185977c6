"""D702 (kind of project: research code for speech enhancement): debugging prints stay in the forward, behind a method."""
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "D702",
    "polarity": "positive",
    "kind": "graph_break",
    "hot_lines": [44, 45],
    "fix": "drop_or_guard_print",
    "auto_fix_safe": False,
    "why": "the printed lines are output that somebody may read; only their author can say that they may go",
    "compiled_graphs": {"calls": 1, "slow": 6, "fixed": 1},
    "hot_share_cpu": 0.76,
    "speedup_cpu": 7.55,
}

RUN_LOG = open(os.devnull, "w")  # the trainer points this at runs/<name>/debug.txt


@dataclass
class GateConfig:
    bins: int = 129
    bands: int = 24
    verbose: bool = True


class SpectralGate(nn.Module):
    """Magnitudes below a learned floor are gated before the band energies are formed."""

    def __init__(self, cfg: GateConfig):
        super().__init__()
        self.cfg = cfg
        self.log_gain = nn.Parameter(torch.randn(cfg.bins, 1) * 0.1)
        self.floor = nn.Parameter(torch.rand(cfg.bins, 1))
        self.bands = nn.Linear(cfg.bins, cfg.bands)

    def _peek(self, name, t):
        if self.cfg.verbose:
            silent = (t == 0).float().mean()  # HOT
            print(f"{name}: rms {t.square().mean().sqrt():.4f}, silent {silent:.1%}", file=RUN_LOG)  # HOT
        return t

    def forward(self, magnitude):
        x = self._peek("in", magnitude * self.log_gain.exp())
        x = self._peek("gated", F.relu(x - self.floor))
        energy = x.mean(dim=-1)
        return self._peek("bands", self.bands(energy))


def build():
    torch.manual_seed(0)
    return SpectralGate(GateConfig()), (torch.randn(24, 129, 200).abs(),)


def build_fixed():
    torch.manual_seed(0)
    return SpectralGate(GateConfig(verbose=False)), (torch.randn(24, 129, 200).abs(),)
