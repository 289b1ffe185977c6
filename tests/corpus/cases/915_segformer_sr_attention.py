"""C915 (after NVlabs/SegFormer mix_transformer.py and whai362/PVT pvt.py, Attention): spatially reduced attention by hand."""
import torch
from torch import nn

expected = {
    "case": "C915",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [40, 41, 42, 43],
    "fix": "scaled_dot_product_attention(dropout_p only in training)",
    "auto_fix_safe": True,
    "why": "scale is head_dim ** -0.5, no mask, softmax over the keys, and the weights are read only by the product with v",
    "hot_share_cpu": 0.73,
    "speedup_cpu": 1.36,
}


class Attention(nn.Module):
    def __init__(self, dim=64, num_heads=2, qkv_bias=True, attn_drop=0.0, sr_ratio=2):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.q = nn.Linear(dim, dim, bias=qkv_bias)
        self.kv = nn.Linear(dim, dim * 2, bias=qkv_bias)
        self.attn_drop = nn.Dropout(attn_drop)
        self.proj = nn.Linear(dim, dim)
        self.sr = nn.Conv2d(dim, dim, kernel_size=sr_ratio, stride=sr_ratio)
        self.norm = nn.LayerNorm(dim)

    def project(self, x, H, W):
        B, N, C = x.shape
        q = self.q(x).reshape(B, N, self.num_heads, C // self.num_heads).permute(0, 2, 1, 3)
        x_ = self.sr(x.permute(0, 2, 1).reshape(B, C, H, W)).reshape(B, C, -1).permute(0, 2, 1)
        kv = self.kv(self.norm(x_)).reshape(B, -1, 2, self.num_heads, C // self.num_heads)
        return q, kv.permute(2, 0, 3, 1, 4)

    def forward(self, x, H, W):
        B, N, C = x.shape
        q, (k, v) = self.project(x, H, W)
        attn = (q @ k.transpose(-2, -1)) * self.scale  # HOT
        attn = attn.softmax(dim=-1)  # HOT
        attn = self.attn_drop(attn)  # HOT
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)  # HOT
        return self.proj(x)


class AttentionFixed(Attention):
    def forward(self, x, H, W):
        B, N, C = x.shape
        q, (k, v) = self.project(x, H, W)
        p = self.attn_drop.p if self.training else 0.0
        x = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=p, scale=self.scale)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


def build():
    torch.manual_seed(0)
    return Attention(), (torch.randn(2, 32 * 32, 64), 32, 32)


def build_fixed():
    slow, inputs = build()
    fast = AttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
