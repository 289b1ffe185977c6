"""C1110: a property computes the cosine basis anew whenever it is read, twice a forward."""
import math

import torch
from torch import nn

expected = {
    "case": "C1110",
    "polarity": "positive",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [28, 29, 30, 31, 34],
    "fix": "register_buffer(persistent=False)",
    "auto_fix_safe": False,
    "why": "the basis depends on the block size alone; a float buffer follows .half() and .to(), which the property did not",
    "hot_share_cpu": 0.26,
    "speedup_cpu": 1.35,
}


class BlockDct(nn.Module):
    def __init__(self, size=320):
        super().__init__()
        self.size = size

    @property
    def basis(self):
        n = self.size
        k = torch.arange(n, dtype=torch.float32)  # HOT
        waves = torch.cos(math.pi / n * (k + 0.5) * k.unsqueeze(1))  # HOT
        waves[0] *= math.sqrt(0.5)  # HOT
        return waves * math.sqrt(2.0 / n)  # HOT

    def forward(self, image):
        return self.basis @ image @ self.basis.t()  # HOT


class BlockDctFixed(nn.Module):
    def __init__(self, size=320):
        super().__init__()
        self.register_buffer("basis", BlockDct(size).basis, persistent=False)

    def forward(self, image):
        return self.basis @ image @ self.basis.t()


def build():
    torch.manual_seed(0)
    return BlockDct(), (torch.randn(320, 320),)


def build_fixed():
    return BlockDctFixed(), build()[1]
