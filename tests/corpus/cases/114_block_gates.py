"""C114 (after block-diagonal gate layers in recurrent language models): every head multiplies its slice by its own small matrix."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C114",
    "polarity": "positive",
    "kind": "head_loop",
    "hot_lines": [31],
    "fix": "einsum_over_heads",
    "auto_fix_safe": True,
    "why": "the slices tile the last dimension and all blocks have one size, so the loop is one einsum with the head as a batch index",
    "hot_share_cpu": 0.88,
    "speedup_cpu": 8.46,
}


class BlockGates(nn.Module):
    def __init__(self, heads=20, dim=6):
        super().__init__()
        self.dim = dim
        self.mats = nn.ParameterDict({k: torch.randn(heads, dim, dim) * 0.3 for k in ("keep", "take")})
        self.bias = nn.ParameterDict({k: torch.randn(heads, dim) for k in ("keep", "take")})

    def block(self, x, mats, bias):
        y = torch.empty_like(x)
        lo = 0
        for mat, b in zip(mats.unbind(0), bias.unbind(0)):
            hi = lo + self.dim
            y[..., lo:hi] = F.linear(x[..., lo:hi], mat, b)  # HOT
            lo = hi
        return y

    def forward(self, x):
        gates = {}
        for name in ("keep", "take"):
            gates[name] = torch.sigmoid(self.block(x, self.mats[name], self.bias[name]))
        return gates["keep"] * x, gates["take"]


class BlockGatesFixed(BlockGates):
    def block(self, x, mats, bias):
        parts = x.unflatten(-1, (-1, self.dim))
        return (torch.einsum("...hd,hed->...he", parts, mats) + bias).flatten(-2)


def build():
    torch.manual_seed(24)
    return BlockGates(), (torch.randn(3, 7, 120),)


def build_fixed():
    slow, inputs = build()
    fast = BlockGatesFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
