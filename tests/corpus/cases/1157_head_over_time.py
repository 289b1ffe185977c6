"""C1157 negative: a head whose output is normalised over the positions before the last is taken."""
import torch
from torch import nn

expected = {
    "case": "C1157",
    "polarity": "negative",
    "kind": "linear_then_slice",
    "hot_lines": [25, 27],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "softmax over dim 1 couples all positions: sliced first, it would see one position and return ones",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.46,
    "speedup_cpu": None,
}


class SaliencyHead(nn.Module):
    def __init__(self, dim=64, tags=96):
        super().__init__()
        self.head = nn.Linear(dim, tags)

    def forward(self, hidden):
        scores = self.head(hidden)  # LOOKS-HOT
        share = torch.softmax(scores, dim=1)
        return share[:, -1]  # LOOKS-HOT


class SaliencyHeadNaive(SaliencyHead):
    def forward(self, hidden):
        scores = self.head(hidden[:, -1:])
        return torch.softmax(scores, dim=1)[:, -1]


def build():
    torch.manual_seed(0)
    return SaliencyHead(), (torch.randn(24, 256, 64),)


def build_naive_fix():
    slow, inputs = build()
    naive = SaliencyHeadNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
