"""C1009: inner products of all field pairs with itertools.combinations."""
from itertools import combinations

import torch
from torch import nn

expected = {
    "case": "C1009",
    "polarity": "positive",
    "kind": "pairwise_loop",
    "hot_lines": [30],
    "fix": "triu_indices_and_one_product",
    "auto_fix_safe": True,
    "why": "combinations() and triu_indices(offset=1) give the pairs in one order, and product and sum are the same per pair",
    "hot_share_cpu": 0.81,
    "speedup_cpu": 7.90,
}


class ProductLayer(nn.Module):
    def __init__(self, fields=22, vocab=400, width=8):
        super().__init__()
        self.table = nn.Embedding(vocab, width)
        self.out = nn.Linear(fields * (fields - 1) // 2, 1)

    def cross(self, emb):
        fields = torch.unbind(emb, dim=1)
        prods = []
        for left, right in combinations(fields, 2):
            prods.append((left * right).sum(dim=1, keepdim=True))  # HOT
        return torch.cat(prods, dim=1)

    def forward(self, ids):
        return torch.sigmoid(self.out(self.cross(self.table(ids))))


class ProductLayerFixed(ProductLayer):
    def cross(self, emb):
        left, right = torch.triu_indices(emb.size(1), emb.size(1), offset=1, device=emb.device)
        return (emb[:, left] * emb[:, right]).sum(dim=2)


def build():
    torch.manual_seed(0)
    return ProductLayer(), (torch.randint(0, 400, (16, 22)),)


def build_fixed():
    slow, inputs = build()
    fast = ProductLayerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
