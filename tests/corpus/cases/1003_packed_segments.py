"""C1003: a same-document mask compared row by row in a generator."""
import torch
from torch import Tensor, nn

expected = {
    "case": "C1003",
    "polarity": "positive",
    "kind": "mask_loop",
    "hot_lines": [20],
    "fix": "broadcast_compare",
    "auto_fix_safe": True,
    "why": "the comparison is elementwise: seg[:, :, None] == seg[:, None, :] gives the same booleans for every batch size",
    "hot_share_cpu": 0.84,
    "speedup_cpu": 6.07,
}


def same_document(segments: Tensor) -> Tensor:
    """(batch, tokens) segment ids -> (batch, tokens, tokens) bool."""
    return torch.stack(tuple(row[:, None].eq(row[None, :]) for row in segments))  # HOT


def same_document_fast(segments: Tensor) -> Tensor:
    return segments[:, :, None].eq(segments[:, None, :])


class PackedMean(nn.Module):
    link = staticmethod(same_document)

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.proj = nn.Linear(width, width)

    def forward(self, tokens: Tensor, segments: Tensor) -> Tensor:
        share = self.link(segments).to(tokens.dtype)
        share = share / share.sum(dim=-1, keepdim=True)
        return torch.bmm(share, self.proj(tokens))


class PackedMeanFixed(PackedMean):
    link = staticmethod(same_document_fast)


def build():
    torch.manual_seed(0)
    segments = torch.randint(0, 2, (192, 14)).cumsum(dim=1)
    return PackedMean(), (torch.randn(192, 14, 8), segments)


def build_fixed():
    slow, inputs = build()
    fast = PackedMeanFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
