"""C113 (after hand-written attention blocks with a bias per head): the heads run one after another on chunks of the projection."""
import torch
from torch import nn

expected = {
    "case": "C113",
    "polarity": "positive",
    "kind": "head_loop",
    "hot_lines": [19, 20, 34],
    "fix": "view_heads_and_batched_matmul",
    "auto_fix_safe": True,
    "why": "heads do not read each other and have one size, so they become a batch dimension of the same matmuls",
    "hot_share_cpu": 0.82,
    "speedup_cpu": 5.68,
}


def _attend(q, k, v, bias):
    score = torch.bmm(q, k.transpose(1, 2)) * q.size(-1) ** -0.5  # HOT
    return torch.bmm((score + bias).softmax(dim=-1), v)  # HOT


class SlopeAttention(nn.Module):
    def __init__(self, width=64, heads=16):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.slope = nn.Parameter(torch.rand(heads))

    def mix(self, qkv, far):
        parts = (t.chunk(self.heads, dim=-1) for t in qkv.chunk(3, dim=-1))
        outs = []
        for h, (q, k, v) in enumerate(zip(*parts)):
            outs.append(_attend(q, k, v, -self.slope[h] * far))  # HOT
        return torch.cat(outs, dim=-1)

    def forward(self, x):
        place = torch.arange(x.size(1), device=x.device, dtype=x.dtype)
        return self.out(self.mix(self.qkv(x), (place[:, None] - place).abs()))


class SlopeAttentionFixed(SlopeAttention):
    def mix(self, qkv, far):
        b, n, _ = qkv.shape
        q, k, v = qkv.view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = (q @ k.mT) * q.size(-1) ** -0.5 - self.slope.view(-1, 1, 1) * far
        return (score.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, -1)


def build():
    torch.manual_seed(23)
    return SlopeAttention(), (torch.randn(2, 14, 64),)


def build_fixed():
    slow, inputs = build()
    fast = SlopeAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
