"""C353 negative (after slot attention models): the same five operators, but the softmax runs over the queries."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C353",
    "polarity": "negative",
    "kind": "manual_attention",
    "hot_lines": [28, 29, 30],
    "must_not": "flag",
    "auto_fix_safe": False,
    "why": "slots compete for each pixel (dim=1 is the query dim); scaled_dot_product_attention normalises over the keys",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.57,
    "speedup_cpu": None,
}


class SlotCompetition(nn.Module):
    def __init__(self, width=64, slots=48):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(1, slots, width))
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_kv = nn.Linear(width, 2 * width, bias=False)

    def compete(self, q, k, v):
        dots = torch.einsum("bid,bjd->bij", q, k) * q.shape[-1] ** -0.5  # LOOKS-HOT
        share = F.softmax(dots, dim=1)  # LOOKS-HOT
        return torch.einsum("bij,bjd->bid", share, v)  # LOOKS-HOT

    def forward(self, pixels):
        k, v = self.to_kv(pixels).chunk(2, dim=-1)
        q = self.to_q(self.slots).expand(pixels.size(0), -1, -1)
        return q + self.compete(q, k, v)


class SlotCompetitionNaive(SlotCompetition):
    def compete(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def build():
    torch.manual_seed(0)
    return SlotCompetition(), (torch.randn(4, 1024, 64),)


def build_naive_fix():
    slow, inputs = build()
    naive = SlotCompetitionNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
