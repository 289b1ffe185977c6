"""C863 negative (after lucidrains/slot-attention): softmax over the slots, not over the keys, then a weighted mean."""
import torch
from torch import nn

expected = {
    "case": "C863",
    "polarity": "negative",
    "kind": "manual_attention",
    "hot_lines": [34, 35, 37],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "dim=1 is the query axis (slots compete for each pixel) and the weights are renormalised over the keys afterwards",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.30,
    "speedup_cpu": None,
}


class SlotAttention(nn.Module):
    def __init__(self, num_slots=7, dim=64, iters=3, eps=1e-8):
        super().__init__()
        self.iters = iters
        self.eps = eps
        self.scale = dim ** -0.5
        self.slots = nn.Parameter(torch.randn(1, num_slots, dim))
        self.to_q = nn.Linear(dim, dim, bias=False)
        self.to_k = nn.Linear(dim, dim, bias=False)
        self.to_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.norm_input = nn.LayerNorm(dim)
        self.norm_slots = nn.LayerNorm(dim)

    def read(self, q, k, v):
        dots = torch.einsum('bid,bjd->bij', q, k) * self.scale  # LOOKS-HOT
        attn = dots.softmax(dim=1) + self.eps  # LOOKS-HOT
        attn = attn / attn.sum(dim=-1, keepdim=True)
        return torch.einsum('bjd,bij->bid', v, attn)  # LOOKS-HOT

    def forward(self, inputs):
        b, n, d = inputs.shape
        slots = self.slots.expand(b, -1, -1)
        inputs = self.norm_input(inputs)
        k, v = self.to_k(inputs), self.to_v(inputs)
        for _ in range(self.iters):
            slots_prev = slots
            q = self.to_q(self.norm_slots(slots))
            updates = self.read(q, k, v)
            slots = self.gru(updates.reshape(-1, d), slots_prev.reshape(-1, d)).reshape(b, -1, d)
        return slots


class SlotAttentionNaive(SlotAttention):
    def read(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, scale=self.scale)


def build(slot=SlotAttention):
    torch.manual_seed(0)
    return slot(), (torch.randn(4, 256, 64),)


def build_naive_fix():
    return build(SlotAttentionNaive)
