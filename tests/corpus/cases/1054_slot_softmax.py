"""C1054 negative: matmul, scale, softmax, matmul, but the softmax runs over the queries."""
import torch
from torch import nn

expected = {
    "case": "C1054",
    "polarity": "negative",
    "kind": "manual_attention",
    "hot_lines": [28, 29, 30, 31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "slots compete for pixels (dim=1 is the query dim) and rows are then renormalised; scaled_dot_product_attention is softmax over keys only",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.13,
    "speedup_cpu": None,
}


class SlotRead(nn.Module):
    def __init__(self, slots=7, width=48, eps=1e-8):
        super().__init__()
        self.slots = nn.Parameter(torch.randn(1, slots, width))
        self.to_k = nn.Linear(width, width, bias=False)
        self.to_v = nn.Linear(width, width, bias=False)
        self.scale, self.eps = width ** -0.5, eps

    def read(self, q, k, v):
        dots = torch.matmul(q, k.transpose(1, 2)) * self.scale  # LOOKS-HOT
        attn = dots.softmax(dim=1) + self.eps  # LOOKS-HOT
        attn = attn / attn.sum(dim=-1, keepdim=True)  # LOOKS-HOT
        return torch.matmul(attn, v)  # LOOKS-HOT

    def forward(self, pixels):
        q = self.slots.expand(pixels.size(0), -1, -1)
        return self.read(q, self.to_k(pixels), self.to_v(pixels))


class SlotReadNaive(SlotRead):
    def read(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, scale=self.scale)


def build():
    torch.manual_seed(0)
    return SlotRead(), (torch.randn(16, 1200, 48),)


def build_naive_fix():
    slow, inputs = build()
    naive = SlotReadNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
