"""C401 (after time-aware sequential recommenders of the TiSASRec kind): one lookup of clipped time gaps per query position."""
import torch
from torch import nn

expected = {
    "case": "C401",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [29, 30],
    "fix": "hoist_batched_call",
    "auto_fix_safe": True,
    "why": "the gaps of one position depend on the timestamps only; an outer difference gives all of them and the lookup is pure",
    "hot_share_cpu": 0.75,
    "speedup_cpu": 3.01,
}


class GapBias(nn.Module):
    """Bias for self-attention from the hours between two clicks of one user."""

    def __init__(self, max_hours=168, heads=4):
        super().__init__()
        self.max_hours = max_hours
        self.gap_table = nn.Embedding(num_embeddings=max_hours + 1, embedding_dim=heads)

    def forward(self, stamps):
        bias = []
        for i, now in enumerate(stamps.unbind(dim=1)):
            hours = torch.div(torch.abs(now[:, None] - stamps), 3600, rounding_mode="floor")  # HOT
            bias.append(self.gap_table(hours.clamp(max=self.max_hours)))  # HOT
        return torch.stack(bias, dim=1).permute(0, 3, 1, 2)


class ClickEncoder(nn.Module):
    def __init__(self, items=2000, dim=32, heads=4, bias=GapBias):
        super().__init__()
        self.heads = heads
        self.items = nn.Embedding(items, dim, padding_idx=0)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.bias = bias(heads=heads)

    def forward(self, clicks, stamps):
        q, k, v = self.qkv(self.items(clicks)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(stamps))
        return mixed.transpose(1, 2).flatten(2)


class GapBiasFixed(GapBias):
    def forward(self, stamps):
        hours = torch.div(torch.abs(stamps[:, :, None] - stamps[:, None, :]), 3600, rounding_mode="floor")
        return self.gap_table(hours.clamp(max=self.max_hours)).permute(0, 3, 1, 2)


def build():
    torch.manual_seed(0)
    stamps = torch.randint(0, 30 * 86400, (2, 96)).sort(dim=1).values
    return ClickEncoder(), (torch.randint(1, 2000, (2, 96)), stamps)


def build_fixed():
    slow, inputs = build()
    fast = ClickEncoder(bias=GapBiasFixed)
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
