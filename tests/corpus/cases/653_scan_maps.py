"""C653 negative (after occupancy grid mapping for robot fleets): every robot starts from the prior map and adds its own scan."""
import torch
from torch import nn

expected = {
    "case": "C653",
    "polarity": "negative",
    "kind": "repeat_to_expand",
    "hot_lines": [26],
    "must_not": "flag the repeat or offer a safe fix that expands instead",
    "auto_fix_safe": False,
    "why": "the loop walks over the copies and each scan is written into its own; with expand all robots write into the prior itself",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.56,
    "speedup_cpu": None,
}


class ScanMaps(nn.Module):
    def __init__(self, side=256):
        super().__init__()
        self.register_buffer("prior", torch.randn(side, side))
        self.hit = nn.Parameter(torch.tensor(0.85), requires_grad=False)

    def start(self, robots):
        return self.prior.repeat(robots, 1, 1)  # LOOKS-HOT

    def forward(self, scans):
        """scans: robots x points x 2, cell indices."""
        maps = self.start(scans.size(0))
        for grid, points in zip(maps, scans):
            row, col = points.unbind(-1)
            grid.index_put_((row, col), self.hit, accumulate=True)
        seen = maps.flatten(1).gather(1, scans[..., 0] * maps.size(2) + scans[..., 1])
        return seen.sigmoid(), maps


class ScanMapsNaive(ScanMaps):
    def start(self, robots):
        return self.prior.expand(robots, -1, -1)


def build():
    torch.manual_seed(0)
    return ScanMaps(), (torch.randint(256, (104, 60, 2)),)


def build_naive_fix():
    slow, inputs = build()
    naive = ScanMapsNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
