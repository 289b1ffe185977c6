"""C1111: the bucketed position bias that all layers share is computed in each layer."""
import math

import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1111",
    "polarity": "positive",
    "kind": "repeated_invariant_compute",
    "hot_lines": [40],
    "fix": "hoist_before_loop",
    "auto_fix_safe": True,
    "why": "the bias depends on the length and one table only; neither changes between layers, and gradients just add up in one place",
    "hot_share_cpu": 0.37,
    "speedup_cpu": 1.48,
}


class BucketEncoder(nn.Module):
    def __init__(self, width=32, heads=4, layers=5, buckets=32):
        super().__init__()
        self.heads, self.buckets = heads, buckets
        self.rel = nn.Embedding(buckets, heads)
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))

    def position_bias(self, n, device):
        pos = torch.arange(n, device=device)
        gap = pos[None, :] - pos[:, None]
        half = self.buckets // 2
        far = torch.log1p(gap.abs().float()) / math.log(1 + n) * (half - 1)
        bucket = far.long() + half * (gap > 0).long()
        return self.rel(bucket).permute(2, 0, 1).unsqueeze(0)

    def forward(self, x):
        b, n, c = x.shape
        for proj in self.qkv:
            q, k, v = proj(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            bias = self.position_bias(n, x.device)  # HOT
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = x + y.transpose(1, 2).reshape(b, n, c)
        return x


class BucketEncoderFixed(BucketEncoder):
    def forward(self, x):
        b, n, c = x.shape
        bias = self.position_bias(n, x.device)
        for proj in self.qkv:
            q, k, v = proj(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            x = x + y.transpose(1, 2).reshape(b, n, c)
        return x


def build():
    torch.manual_seed(0)
    return BucketEncoder(), (torch.randn(1, 256, 32),)


def build_fixed():
    slow, inputs = build()
    fast = BucketEncoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
