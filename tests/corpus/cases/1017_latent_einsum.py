"""C1017: cross-attention from latents to pixels written with einsum on (batch, token, head, dim)."""
import math

import torch
from torch import einsum, nn

expected = {
    "case": "C1017",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [35, 36, 37],
    "fix": "scaled_dot_product_attention",
    "auto_fix_safe": True,
    "why": "1/sqrt(d) scale, no mask, no dropout, softmax over the keys, weights used once; only the layout (b n h d) has to be transposed",
    "hot_share_cpu": 0.95,
    "speedup_cpu": 2.45,
}


class LatentReader(nn.Module):
    def __init__(self, latents=96, width=64, heads=8):
        super().__init__()
        self.heads = heads
        self.latents = nn.Parameter(torch.randn(1, latents, width))
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_kv = nn.Linear(width, 2 * width, bias=False)
        self.to_out = nn.Linear(width, width)

    def split(self, t):
        return t.reshape(t.shape[0], t.shape[1], self.heads, -1)

    def forward(self, pixels):
        q = self.split(self.to_q(self.latents).expand(pixels.shape[0], -1, -1))
        k, v = map(self.split, self.to_kv(pixels).chunk(2, dim=-1))
        sim = einsum("b i h d, b j h d -> b h i j", q, k)  # HOT
        attn = torch.softmax(sim / math.sqrt(q.shape[-1]), dim=-1)  # HOT
        out = einsum("b h i j, b j h d -> b i h d", attn, v)  # HOT
        return self.to_out(out.reshape(out.shape[0], out.shape[1], -1))


class LatentReaderFixed(LatentReader):
    def forward(self, pixels):
        q = self.split(self.to_q(self.latents).expand(pixels.shape[0], -1, -1))
        k, v = map(self.split, self.to_kv(pixels).chunk(2, dim=-1))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        out = nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)
        return self.to_out(out.flatten(2))


def build():
    torch.manual_seed(0)
    return LatentReader(), (torch.randn(2, 1024, 64),)


def build_fixed():
    slow, inputs = build()
    fast = LatentReaderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
