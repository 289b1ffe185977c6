"""C112 (after the bilinear interaction of FiBiNET ports): every pair of fields is multiplied on its own, the left side projected again each time."""
from itertools import combinations

import torch
from torch import nn

expected = {
    "case": "C112",
    "polarity": "positive",
    "kind": "pairwise_loop",
    "hot_lines": [30],
    "fix": "project_once_then_index_pairs",
    "auto_fix_safe": True,
    "why": "the projection is one linear layer for all fields; indexing with triu_indices gives the pairs in the order of combinations",
    "hot_share_cpu": 0.90,
    "speedup_cpu": 10.34,
}


class FieldPairs(nn.Module):
    def __init__(self, dim=10):
        super().__init__()
        self.bilinear = nn.Linear(dim, dim, bias=False)
        self.head = nn.Linear(dim, 1)

    def interact(self, fields):
        views = torch.split(fields, 1, dim=1)
        products = []
        for left, right in combinations(views, 2):
            products.append(torch.mul(self.bilinear(left), right))  # HOT
        return torch.cat(products, dim=1)

    def forward(self, fields):
        return self.head(self.interact(fields)).flatten(1)


class FieldPairsFixed(FieldPairs):
    def interact(self, fields):
        i, j = torch.triu_indices(fields.size(1), fields.size(1), offset=1, device=fields.device)
        return self.bilinear(fields)[:, i] * fields[:, j]


def build():
    torch.manual_seed(22)
    return FieldPairs(), (torch.randn(12, 15, 10),)


def build_fixed():
    slow, inputs = build()
    fast = FieldPairsFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
