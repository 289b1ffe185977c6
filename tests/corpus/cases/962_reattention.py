"""C962 negative (after zhoudaquan/dvit_repo, ReAttention): the softmax maps are mixed across heads before they meet v."""
import torch
from torch import nn

expected = {
    "case": "C962",
    "polarity": "negative",
    "kind": "manual_attention",
    "hot_lines": [34, 35, 38],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "a 1x1 convolution and a BatchNorm act on the weights between softmax and the product with v; the fused kernel has no such place",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.51,
    "speedup_cpu": None,
}


class ReAttention(nn.Module):
    def __init__(self, dim=64, num_heads=4, qkv_bias=False):
        super().__init__()
        self.num_heads = num_heads
        self.scale = (dim // num_heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.reatten_matrix = nn.Conv2d(num_heads, num_heads, 1, 1)
        self.var_norm = nn.BatchNorm2d(num_heads)
        self.reatten_scale = self.scale
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q @ k.transpose(-2, -1)) * self.scale  # LOOKS-HOT
        attn = attn.softmax(dim=-1)  # LOOKS-HOT
        if self.reatten_matrix is not None:
            attn = self.var_norm(self.reatten_matrix(attn)) * self.reatten_scale
        x = (attn @ v).transpose(1, 2).reshape(B, N, C)  # LOOKS-HOT
        return self.proj(x)


class ReAttentionNaive(ReAttention):
    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        x = nn.functional.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


def build():
    torch.manual_seed(0)
    return ReAttention().eval(), (torch.randn(4, 128, 64),)


def build_naive_fix():
    slow, inputs = build()
    naive = ReAttentionNaive().eval()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
