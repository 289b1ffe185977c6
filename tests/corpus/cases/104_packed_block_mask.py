"""C104 (after transformers#39121, Qwen2-VL): the additive mask of packed sequences filled block by block from cu_seqlens."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C104",
    "polarity": "positive",
    "kind": "mask_loop",
    "hot_lines": [22],
    "fix": "segment_ids_compare",
    "auto_fix_safe": False,
    "why": "two places see each other exactly when their segment numbers match, but only if the bounds are sorted and cover the row",
    "hot_share_cpu": 0.70,
    "speedup_cpu": 2.66,
}


def packed_mask(bounds, total, like):
    mask = torch.full((1, total, total), float("-inf"), device=like.device, dtype=like.dtype)
    for k in range(1, len(bounds)):
        mask[..., bounds[k - 1] : bounds[k], bounds[k - 1] : bounds[k]] = 0  # HOT
    return mask


class PackedViewer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def make_mask(self, bounds, tokens):
        return packed_mask(bounds, tokens.size(1), tokens)

    def forward(self, tokens, bounds):
        q, k, v = self.qkv(tokens).tensor_split(3, dim=-1)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.make_mask(bounds, tokens))


class PackedViewerFixed(PackedViewer):
    def make_mask(self, bounds, tokens):
        place = torch.arange(tokens.size(1), device=tokens.device)
        owner = torch.bucketize(place, bounds[1:].contiguous(), right=True)
        apart = owner.unsqueeze(0) != owner.unsqueeze(1)
        return tokens.new_zeros(1, len(place), len(place)).masked_fill_(apart, float("-inf"))


def build():
    torch.manual_seed(14)
    sizes = torch.randint(1, 5, (50,))
    bounds = F.pad(sizes.cumsum(0), (1, 0))
    return PackedViewer(), (torch.randn(1, int(bounds[-1]), 16), bounds)


def build_fixed():
    slow, inputs = build()
    fast = PackedViewerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
