"""C201 (after meta-llama/llama-models#137): rotary frequencies rescaled one by one through a three-way Python branch."""
import math
import torch
from torch import nn

expected = {
    "case": "C201",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [21, 22, 23, 25, 26, 28, 29],
    "fix": "vectorise_with_where",
    "auto_fix_safe": False,
    "why": "values agree, but where() evaluates all three forms: a zero frequency would put NaN into a gradient; a human should look",
    "hot_share_cpu": 0.85,
    "speedup_cpu": 5.31,
}


def stretch_bands(freqs, factor, long_edge, short_edge):
    rescaled = []
    for f in freqs:  # HOT
        wave = 2 * math.pi / f  # HOT
        if wave < short_edge:  # HOT
            rescaled.append(f)
        elif wave > long_edge:  # HOT
            rescaled.append(f / factor)  # HOT
        else:
            mix = (long_edge - wave) / (long_edge - short_edge)  # HOT
            rescaled.append(mix * f + (1 - mix) * f / factor)  # HOT
    return torch.stack(rescaled)


class StretchedRotary(nn.Module):
    def __init__(self, dim=64, trained_len=16):
        super().__init__()
        self.trained_len = trained_len
        self.register_buffer("freqs", 10000.0 ** (-torch.arange(0, dim, 2) / dim))

    def bands(self, n):
        return stretch_bands(self.freqs, max(1.0, n / self.trained_len), 1600.0, 40.0)

    def forward(self, q):
        pos = torch.arange(q.size(1), device=q.device, dtype=q.dtype)
        angle = torch.outer(pos, self.bands(q.size(1)))[:, None, :]
        even, odd = q.chunk(2, dim=-1)
        cos, sin = angle.cos(), angle.sin()
        return torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1)


class StretchedRotaryFixed(StretchedRotary):
    def bands(self, n):
        factor, long_edge, short_edge, f = max(1.0, n / self.trained_len), 1600.0, 40.0, self.freqs
        wave = 2 * math.pi / f
        mix = (long_edge - wave) / (long_edge - short_edge)
        slow = torch.where(wave > long_edge, f / factor, mix * f + (1 - mix) * f / factor)
        return torch.where(wave < short_edge, f, slow)


def build():
    torch.manual_seed(0)
    return StretchedRotary(), (torch.randn(2, 48, 4, 64),)


def build_fixed():
    return StretchedRotaryFixed(), build()[1]
