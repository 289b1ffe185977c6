"""C608 (after fairseq-style attention in symbolic music models): time first, heads folded into the batch, additive future mask."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C608",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [36, 37, 38],
    "fix": "scaled_dot_product_attention(is_causal=True, scale=1.0)",
    "auto_fix_safe": True,
    "why": "the mask is a constant causal one, so no row is fully masked; the query is scaled already; the weights go nowhere else",
    "hot_share_cpu": 0.91,
    "speedup_cpu": 1.49,
}


class EventAttention(nn.Module):
    def __init__(self, width=32, heads=2, longest=1024):
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.scaling = self.head_dim ** -0.5
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        future = torch.full((longest, longest), float("-inf")).triu(1)
        self.register_buffer("future", future, persistent=False)

    def _fold(self, t):
        return t.reshape(t.size(0), -1, self.head_dim).transpose(0, 1)

    def forward(self, events):
        steps, batch, width = events.shape
        q, k, v = self.in_proj(events).chunk(3, dim=-1)
        q, k, v = self._fold(q * self.scaling), self._fold(k), self._fold(v)
        logits = torch.baddbmm(self.future[:steps, :steps], q, k.transpose(1, 2))  # HOT
        probs = F.softmax(logits, dim=-1)  # HOT
        mixed = torch.bmm(probs, v)  # HOT
        mixed = mixed.transpose(0, 1).reshape(steps, batch, width)
        return self.out_proj(mixed)


class EventAttentionFixed(EventAttention):
    def forward(self, events):
        steps, batch, width = events.shape
        q, k, v = self.in_proj(events).chunk(3, dim=-1)
        q, k, v = (self._fold(t).unflatten(0, (batch, self.heads)) for t in (q * self.scaling, k, v))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0)
        return self.out_proj(mixed.permute(2, 0, 1, 3).reshape(steps, batch, width))


def build():
    torch.manual_seed(0)
    return EventAttention(), (torch.randn(700, 2, 32),)


def build_fixed():
    slow, inputs = build()
    fast = EventAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
