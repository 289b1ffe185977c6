"""C502 (after mobile-robot mapping code ported from numpy): each beam of a laser scan adds its evidence to one grid cell."""
import dataclasses

import torch
from torch import nn

expected = {
    "case": "C502",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [44],
    "fix": "index_put_accumulate",
    "auto_fix_safe": False,
    "why": "several beams meet in one cell, so the scatter must accumulate; the order of the sum changes (not deterministic on a GPU)",
    "hot_share_cpu": 0.81,
    "speedup_cpu": 82.92,
}


@dataclasses.dataclass
class GridSpec:
    cells: int = 40
    reach: float = 10.0


class BeamEvidence(nn.Module):
    def __init__(self, spec=None):
        super().__init__()
        self.spec = spec or GridSpec()
        self.gain = nn.Parameter(torch.tensor(0.85))
        self.smooth = nn.Conv2d(1, 1, 3, padding=1)

    def cells_of(self, ranges, bearings):
        half = self.spec.cells / 2
        scale = half / self.spec.reach
        row = (half + scale * ranges * torch.sin(bearings)).long()
        col = (half + scale * ranges * torch.cos(bearings)).long()
        top = self.spec.cells - 1
        return row.clamp(0, top), col.clamp(0, top)

    def accumulate(self, rows, cols, quality):
        grid = quality.new_zeros(self.spec.cells, self.spec.cells)
        for row, col, q in zip(rows, cols, quality):
            grid[row, col] = grid[row, col] + self.gain * q  # HOT
        return grid

    def forward(self, ranges, bearings, quality):
        grid = self.accumulate(*self.cells_of(ranges, bearings), quality)
        return torch.sigmoid(self.smooth(grid[None, None]))


class BeamEvidenceFixed(BeamEvidence):
    def accumulate(self, rows, cols, quality):
        grid = quality.new_zeros(self.spec.cells, self.spec.cells)
        return grid.index_put((rows, cols), self.gain * quality, accumulate=True)


def build():
    torch.manual_seed(0)
    return BeamEvidence(), (torch.rand(360) * 9.0, torch.linspace(-3.1, 3.1, 360), torch.rand(360))


def build_fixed():
    slow, inputs = build()
    fast = BeamEvidenceFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
