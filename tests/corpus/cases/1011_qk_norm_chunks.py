"""C1011: every head cut out with chunk, normalised alone, then glued together."""
import torch
from torch import nn
import torch.nn.functional as F

expected = {
    "case": "C1011",
    "polarity": "positive",
    "kind": "head_loop",
    "hot_lines": [30],
    "fix": "unflatten_normalize_flatten",
    "auto_fix_safe": True,
    "why": "heads are equal blocks of the last dim; normalising (..., heads, dim) over dim and scaling by (heads, 1) is the same per head",
    "hot_share_cpu": 0.91,
    "speedup_cpu": 5.33,
}


class QKNorm(nn.Module):
    def __init__(self, heads=24, dim=8):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(32, heads * dim, bias=False)
        self.k_proj = nn.Linear(32, heads * dim, bias=False)
        self.q_gain = nn.Parameter(torch.rand(heads))
        self.k_gain = nn.Parameter(torch.rand(heads))

    def per_head(self, x, gain):
        parts = x.chunk(self.heads, dim=-1)
        parts = [F.normalize(p, dim=-1) * g for p, g in zip(parts, gain)]  # HOT
        return torch.cat(parts, dim=-1)

    def forward(self, x):
        q = self.per_head(self.q_proj(x), self.q_gain)
        k = self.per_head(self.k_proj(x), gain=self.k_gain)
        return q, k


class QKNormFixed(QKNorm):
    def per_head(self, x, gain):
        x = x.unflatten(-1, (self.heads, -1))
        return (F.normalize(x, dim=-1) * gain[:, None]).flatten(-2)


def build():
    torch.manual_seed(0)
    return QKNorm(), (torch.randn(2, 32, 32),)


def build_fixed():
    slow, inputs = build()
    fast = QKNormFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
