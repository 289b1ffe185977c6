"""C207 (after openfold-3#217, diffusers#11499): the long memory is copied into transposed order before every small bmm."""
import torch
from torch import nn

expected = {
    "case": "C207",
    "polarity": "positive",
    "kind": "contiguous_churn",
    "hot_lines": [25],
    "fix": "drop_contiguous",
    "auto_fix_safe": True,
    "why": "bmm takes a transposed operand as a BLAS flag; the copy feeds nothing else",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 2.50,
}


class LatentReader(nn.Module):
    def __init__(self, width=64, latents=4, depth=3):
        super().__init__()
        self.seed = nn.Parameter(torch.randn(latents, width) * 0.1)
        self.mix = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def read(self, z, memory):
        gate = torch.bmm(z, memory.transpose(1, 2).contiguous()).sigmoid()  # HOT
        return gate @ memory / memory.size(1)

    def forward(self, memory):
        z = self.seed.expand(memory.size(0), -1, -1)
        for layer in self.mix:
            z = z + layer(self.read(z, memory))
        return z


class LatentReaderFixed(LatentReader):
    def read(self, z, memory):
        gate = torch.bmm(z, memory.transpose(1, 2)).sigmoid()
        return gate @ memory / memory.size(1)


def build():
    torch.manual_seed(0)
    return LatentReader(), (torch.randn(4, 1500, 64),)


def build_fixed():
    slow, inputs = build()
    fast = LatentReaderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
