"""C1151 negative: one copy to channels-last serves all prediction heads, which would each copy on their own."""
import torch
from torch import nn

expected = {
    "case": "C1151",
    "polarity": "negative",
    "kind": "contiguous_churn",
    "hot_lines": [25],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "Linear takes the transposed view, but flattens it by a copy inside, so one visible copy becomes six hidden ones",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.24,
    "speedup_cpu": 0.36,
}


class AnchorHeads(nn.Module):
    def __init__(self, width=64, sizes=(1, 2, 3, 4, 2, 1)):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(width, k) for k in sizes)

    def forward(self, feats):
        cells = feats.flatten(2).transpose(1, 2).contiguous()  # LOOKS-HOT
        return [head(cells) for head in self.heads]


class AnchorHeadsNaive(AnchorHeads):
    def forward(self, feats):
        cells = feats.flatten(2).transpose(1, 2)
        return [head(cells) for head in self.heads]


def build():
    torch.manual_seed(0)
    return AnchorHeads(), (torch.randn(8, 64, 40, 40),)


def build_naive_fix():
    slow, inputs = build()
    naive = AnchorHeadsNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
