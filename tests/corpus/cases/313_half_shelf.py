"""C313 (after kornia-rs#904, nanochat#388): a half precision shelf of vectors is widened anew for each chunk of queries."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C313",
    "polarity": "positive",
    "kind": "repeated_dtype_cast",
    "hot_lines": [31],
    "fix": "hoist_cast_out_of_the_loop",
    "auto_fix_safe": True,
    "why": "the buffer is not written in the loop, so one cast per forward gives the same values; the buffer itself stays half",
    "hot_share_cpu": 0.76,
    "speedup_cpu": 1.90,
}


class HalfShelf(nn.Module):
    def __init__(self, items=4096, width=64, rows=4, keep=8):
        super().__init__()
        self.rows, self.keep = rows, keep
        self.proj = nn.Linear(width, width)
        self.register_buffer("shelf", torch.randn(items, width).half())

    def project(self, queries):
        return F.normalize(self.proj(queries), dim=-1)

    def forward(self, queries):
        chunks = self.project(queries).split(self.rows)
        sims = [chunk @ self.shelf.to(dtype=chunk.dtype).t() for chunk in chunks]  # HOT
        return torch.cat([s.topk(self.keep, dim=-1).values for s in sims])


class HalfShelfFixed(HalfShelf):
    def forward(self, queries):
        found = self.project(queries)
        shelf = self.shelf.to(dtype=found.dtype).t()
        sims = [chunk @ shelf for chunk in found.split(self.rows)]
        return torch.cat([s.topk(self.keep, dim=-1).values for s in sims])


def build():
    torch.manual_seed(0)
    return HalfShelf(), (torch.randn(128, 64),)


def build_fixed():
    slow, inputs = build()
    fast = HalfShelfFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
