"""C607 (after self-organising maps ported from numpy): best matching unit by histogram intersection, and the pull on its neighbours."""
import torch
from torch import nn

expected = {
    "case": "C607",
    "polarity": "positive",
    "kind": "repeat_to_expand",
    "hot_lines": [35, 36, 37],
    "fix": "expand",
    "auto_fix_safe": True,
    "why": "the tiled tensors are only compared and multiplied, which broadcasts; nothing writes into them and they do not leave the method",
    "hot_share_cpu": 0.31,
    "speedup_cpu": 2.98,
}


class MapWinner(nn.Module):
    """The units are moved by a hand-written update rule, not by an optimizer."""

    def __init__(self, rows=16, cols=20, features=24, radius=2.5):
        super().__init__()
        self.register_buffer("units", torch.rand(features, rows * cols, dtype=torch.float64))
        self.register_buffer("relevance", torch.rand(features, 1, dtype=torch.float64))
        grid = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
        self.register_buffer("grid", grid.double())
        self.radius = radius

    @property
    def n_units(self):
        return self.units.shape[1]

    def overlap(self, batch):
        n = batch.shape[0]
        samples = torch.tile(batch[..., None], (1, 1, self.n_units))  # HOT
        units = self.units.repeat(n, 1, 1)  # HOT
        relevance = self.relevance.repeat(n, 1, self.n_units)  # HOT
        shared = torch.minimum(samples, units)
        return shared.mul_(relevance).sum(dim=1)

    def forward(self, batch):
        shared = self.overlap(batch)
        best = shared.argmax(dim=1)
        near = torch.cdist(self.grid[best], self.grid)
        pull = torch.exp(-near.square() / (2 * self.radius ** 2))
        return best, (pull * shared).mean()


class MapWinnerFixed(MapWinner):
    def overlap(self, batch):
        n = batch.shape[0]
        samples = batch[..., None].expand(-1, -1, self.n_units)
        units = self.units.expand(n, -1, -1)
        relevance = self.relevance.expand(n, -1, self.n_units)
        shared = torch.minimum(samples, units)
        return shared.mul_(relevance).sum(dim=1)


def build():
    torch.manual_seed(0)
    return MapWinner(), (torch.rand(150, 24, dtype=torch.float64),)


def build_fixed():
    slow, inputs = build()
    fast = MapWinnerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
