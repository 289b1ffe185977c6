"""C844 (after huggingface/transformers#48418, vllm#55882): packed vision attention reads the same split sizes three times per layer."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C844",
    "polarity": "positive",
    "kind": "loop_invariant_host_sync",
    "hot_lines": [34],
    "fix": "hoist_tolist",
    "auto_fix_safe": True,
    "why": "lengths does not change between q, k and v: one tolist() before the comprehension gives the same ints, 3 syncs become 1",
    "gpu_only": True,
    "hot_share_cpu": 0.16,
    "speedup_cpu": 1.00,
}


class VisionAttention(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def split_heads(self, hidden_states):
        n = hidden_states.shape[0]
        return self.qkv(hidden_states).reshape(n, 3, self.num_heads, -1).permute(1, 2, 0, 3).unbind(0)

    def forward(self, hidden_states, cu_seqlens):
        qkv = self.split_heads(hidden_states)
        lengths = cu_seqlens[1:] - cu_seqlens[:-1]
        splits = [torch.split(t, lengths.tolist(), dim=1) for t in qkv]  # HOT
        outs = [F.scaled_dot_product_attention(q, k, v) for q, k, v in zip(*splits)]
        out = torch.cat(outs, dim=1).transpose(0, 1).flatten(1)
        return self.proj(out)


class VisionAttentionFixed(VisionAttention):
    def forward(self, hidden_states, cu_seqlens):
        qkv = self.split_heads(hidden_states)
        lengths = (cu_seqlens[1:] - cu_seqlens[:-1]).tolist()
        splits = [torch.split(t, lengths, dim=1) for t in qkv]
        outs = [F.scaled_dot_product_attention(q, k, v) for q, k, v in zip(*splits)]
        return self.proj(torch.cat(outs, dim=1).transpose(0, 1).flatten(1))


class VisionTower(nn.Module):
    def __init__(self, attention=VisionAttention, dim=32, depth=4):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.attns = nn.ModuleList(attention(dim, 4) for _ in range(depth))

    def forward(self, patches, cu_seqlens):
        for norm, attn in zip(self.norms, self.attns):
            patches = patches + attn(norm(patches), cu_seqlens)
        return patches


def build():
    torch.manual_seed(0)
    return VisionTower(), (torch.randn(96, 32), torch.tensor([0, 16, 24, 56, 96]))


def build_fixed():
    slow, inputs = build()
    fast = VisionTower(VisionAttentionFixed)
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
