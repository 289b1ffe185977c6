"""C304 (after llm-foundry#628, Megatron-DeepSpeed#419, HeadKV#3): key heads repeated in memory only to meet the query heads."""
import torch
from torch import nn

expected = {
    "case": "C304",
    "polarity": "positive",
    "kind": "repeat_to_expand",
    "hot_lines": [28],
    "fix": "fold_group_into_query_rows",
    "auto_fix_safe": True,
    "why": "the repeated keys are only read by one product; stack the group as query rows (a plain expand is copied again by matmul and gains nothing)",
    "hot_share_cpu": 0.25,
    "speedup_cpu": 5.11,
}


class CacheVote(nn.Module):
    """Scores cached positions by how much the last few queries look at them."""

    def __init__(self, heads=16, kv_heads=2, dim=64):
        super().__init__()
        self.kv_heads, self.groups = kv_heads, heads // kv_heads
        self.scale = dim**-0.5
        self.sharp = nn.Parameter(torch.rand(heads, 1, 1) + 0.5)

    def scores(self, q, k):
        k = torch.repeat_interleave(k, self.groups, dim=1)  # HOT
        return torch.matmul(q, k.transpose(2, 3)) * self.scale

    def forward(self, q, k):
        votes = torch.softmax(self.scores(q, k) * self.sharp, dim=-1)
        return votes.sum(dim=-2).unflatten(1, (self.kv_heads, self.groups)).mean(dim=2)


class CacheVoteFixed(CacheVote):
    def scores(self, q, k):
        b, h, n, d = q.shape
        rows = q.reshape(b, self.kv_heads, self.groups * n, d)
        return torch.matmul(rows, k.transpose(2, 3)).view(b, h, n, -1) * self.scale


def build():
    torch.manual_seed(0)
    return CacheVote(), (torch.randn(2, 16, 4, 64), torch.randn(2, 2, 2048, 64))


def build_fixed():
    slow, inputs = build()
    fast = CacheVoteFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
