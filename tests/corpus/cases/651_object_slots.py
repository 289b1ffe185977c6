"""C651 negative (after object-centric scene models with competing slots): pixels choose between slots, slots collect their pixels."""
import torch
from torch import nn

expected = {
    "case": "C651",
    "polarity": "negative",
    "kind": "manual_attention",
    "hot_lines": [28, 29, 30],
    "must_not": "flag it as attention that scaled_dot_product_attention can replace",
    "auto_fix_safe": False,
    "why": "the softmax runs over dim 1, the slots that act as queries, so that slots compete for a pixel; scaled_dot_product_attention normalises over the keys",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.71,
    "speedup_cpu": None,
}


class ObjectSlots(nn.Module):
    def __init__(self, slots=64, width=32, rounds=2):
        super().__init__()
        self.rounds = rounds
        self.start = nn.Parameter(torch.randn(slots, width))
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.update = nn.GRUCell(width, width)

    def collect(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2)) * q.size(-1) ** -0.5  # LOOKS-HOT
        owner = torch.softmax(scores, dim=1)  # LOOKS-HOT
        return torch.bmm(owner, v)  # LOOKS-HOT

    def forward(self, pixels):
        k, v = self.key(pixels), self.value(pixels)
        slots = self.start.expand(pixels.size(0), -1, -1)
        for _ in range(self.rounds):
            seen = self.collect(self.query(slots), k, v)
            slots = self.update(seen.flatten(0, 1), slots.flatten(0, 1)).view_as(seen)
        return slots


class ObjectSlotsNaive(ObjectSlots):
    def collect(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v)


def build():
    torch.manual_seed(0)
    return ObjectSlots(), (torch.randn(4, 900, 32),)


def build_naive_fix():
    slow, inputs = build()
    naive = ObjectSlotsNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
