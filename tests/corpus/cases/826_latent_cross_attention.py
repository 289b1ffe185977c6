"""C826 (after CompVis/latent-diffusion ldm/modules/attention.py CrossAttention): attention with einsum and heads folded into the batch."""
import torch
from torch import nn, einsum

expected = {
    "case": "C826",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [43, 44, 45],
    "fix": "scaled_dot_product_attention",
    "auto_fix_safe": True,
    "why": "scale is dim_head ** -0.5, softmax runs over the keys, no dropout on the weights, and they are used only once",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 1.64,
}


def exists(val):
    return val is not None


class CrossAttention(nn.Module):
    def __init__(self, query_dim=128, context_dim=None, heads=4, dim_head=32, dropout=0.):
        super().__init__()
        inner_dim = dim_head * heads
        context_dim = context_dim if exists(context_dim) else query_dim
        self.scale = dim_head ** -0.5
        self.heads = heads
        self.to_q = nn.Linear(query_dim, inner_dim, bias=False)
        self.to_k = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_v = nn.Linear(context_dim, inner_dim, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner_dim, query_dim), nn.Dropout(dropout))

    def split_heads(self, t):  # b n (h d) -> (b h) n d
        b, n, _ = t.shape
        return t.view(b, n, self.heads, -1).transpose(1, 2).reshape(b * self.heads, n, -1)

    def forward(self, x, context=None):
        b, n, _ = x.shape
        context = context if exists(context) else x
        q, k, v = map(self.split_heads, (self.to_q(x), self.to_k(context), self.to_v(context)))

        sim = einsum('b i d, b j d -> b i j', q, k) * self.scale  # HOT
        attn = sim.softmax(dim=-1)  # HOT
        out = einsum('b i j, b j d -> b i d', attn, v)  # HOT

        out = out.view(b, self.heads, n, -1).transpose(1, 2).reshape(b, n, -1)
        return self.to_out(out)


class CrossAttentionFixed(CrossAttention):
    def forward(self, x, context=None):
        b, n, _ = x.shape
        context = context if exists(context) else x
        q, k, v = map(self.split_heads, (self.to_q(x), self.to_k(context), self.to_v(context)))
        q, k, v = (t.unflatten(0, (b, self.heads)) for t in (q, k, v))
        out = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.to_out(out.transpose(1, 2).reshape(b, n, -1))


def build():
    torch.manual_seed(0)
    return CrossAttention(), (torch.randn(2, 576, 128),)


def build_fixed():
    slow, inputs = build()
    fast = CrossAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
