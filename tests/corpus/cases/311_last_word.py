"""C311 (after transformers#38977, executorch#20604): vocabulary logits of all positions, of which one per row is picked."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

expected = {
    "case": "C311",
    "polarity": "positive",
    "kind": "linear_then_slice",
    "hot_lines": [42],
    "fix": "slice_before_linear",
    "auto_fix_safe": True,
    "why": "LayerNorm and Linear act on each position alone, so the last valid position can be picked before them",
    "hot_share_cpu": 0.74,
    "speedup_cpu": 4.66,
}


@dataclass
class Encoded:
    states: Tensor
    last: Tensor


class LastWord(nn.Module):
    def __init__(self, vocab=3000, width=96):
        super().__init__()
        self.table = nn.Parameter(torch.randn(vocab, width))
        self.conv = nn.Conv1d(width, width, kernel_size=3)
        self.norm = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocab, bias=False)

    def encode(self, ids: Tensor, lengths: Tensor) -> Encoded:
        x = F.pad(F.embedding(ids, self.table).mT, (2, 0))
        return Encoded(states=F.gelu(self.conv(x)).mT, last=lengths - 1)

    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        enc = self.encode(ids, lengths)
        rows = torch.arange(ids.size(0), device=ids.device)
        logits = self.lm_head(self.norm(enc.states))  # HOT
        return logits[rows, enc.last].log_softmax(dim=-1)


class LastWordFixed(LastWord):
    def forward(self, ids: Tensor, lengths: Tensor) -> Tensor:
        enc = self.encode(ids, lengths)
        rows = torch.arange(ids.size(0), device=ids.device)
        return self.lm_head(self.norm(enc.states[rows, enc.last])).log_softmax(dim=-1)


def build():
    torch.manual_seed(0)
    return LastWord(), (torch.randint(0, 3000, (6, 48)), torch.tensor([48, 20, 31, 7, 44, 48]))


def build_fixed():
    slow, inputs = build()
    fast = LastWordFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
