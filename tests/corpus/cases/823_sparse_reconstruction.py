"""C823 (after the VARS-D attention, bfshi/VARS vars_block.py and its ports): transposed features are copied to contiguous right before a matmul."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C823",
    "polarity": "positive",
    "kind": "contiguous_churn",
    "hot_lines": [44, 45],
    "fix": "drop_contiguous",
    "auto_fix_safe": True,
    "why": "a batched matmul takes a transposed operand as it is; neither copy is viewed, returned or written to",
    "hot_share_cpu": 0.30,
    "speedup_cpu": 1.24,
}


def to_random_feature(x, proj):
    m = proj.shape[-1]
    return torch.exp(x @ proj - x.norm(dim=-1, keepdim=True) ** 2 / 2) / m ** 0.5


class SparseReconAttention(nn.Module):
    def __init__(self, dim=64, num_heads=4, feat_ratio=2, lam=0.3, num_step=5):
        super().__init__()
        self.num_heads = num_heads
        head_dim = dim // num_heads
        self.scale = head_dim ** -0.5
        self.qkv = nn.Linear(dim, dim * 2)
        self.rand_matrix = nn.Parameter(torch.randn(num_heads, head_dim, head_dim * feat_ratio), requires_grad=False)
        self.lam = lam
        self.num_step = num_step

    def att_func(self, x, kk):
        inp = x
        L = kk.norm(p=1, dim=-1).max(dim=-1)[0].detach()[..., None, None] + 1
        for _ in range(self.num_step):
            x = x - (kk @ x - inp) / L
            x = torch.sign(x) * F.relu(x.abs() - self.lam / L)
        return x

    def correlate(self, k, v):
        kk = k.transpose(-2, -1).contiguous() @ k  # HOT
        kv = k.transpose(-2, -1).contiguous() @ v  # HOT
        return kk, kv

    def forward(self, x):
        B, N, C = x.shape
        q, v = self.qkv(x).reshape(B, N, 2, self.num_heads, C // self.num_heads).permute(2, 0, 3, 1, 4)
        q = F.normalize(to_random_feature(q * self.scale ** 0.5, self.rand_matrix), dim=-2)
        kk, kv = self.correlate(q, v)
        x = q @ self.att_func(kv, kk)
        return x.transpose(1, 2).reshape(B, N, C)


class SparseReconAttentionFixed(SparseReconAttention):
    def correlate(self, k, v):
        return k.transpose(-2, -1) @ k, k.transpose(-2, -1) @ v


def build(att=SparseReconAttention):
    torch.manual_seed(0)
    return att(), (torch.randn(2, 784, 64),)


def build_fixed():
    return build(SparseReconAttentionFixed)
