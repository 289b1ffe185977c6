"""C307 (after diffusers#3483, transformers#18344): cross attention as baddbmm(beta=0), float32 softmax and bmm on folded heads."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C307",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [35, 36, 37],
    "fix": "scaled_dot_product_attention(scale=alpha)",
    "auto_fix_safe": True,
    "why": "beta=0 ignores the blank operand, no mask, weights used once; the fused kernel also accumulates in float32",
    "hot_share_cpu": 0.80,
    "speedup_cpu": 1.58,
}


class GuidedCross(nn.Module):
    def __init__(self, width=128, text=96, heads=4):
        super().__init__()
        self.heads, self.scale = heads, (width // heads) ** -0.5
        self.to_q = nn.Linear(width, width, bias=False)
        self.to_k = nn.Linear(text, width, bias=False)
        self.to_v = nn.Linear(text, width, bias=False)

    def fold(self, t):
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2).flatten(0, 1)

    def unfold(self, t):
        return t.unflatten(0, (-1, self.heads)).transpose(1, 2).flatten(2)

    def attend(self, q, k, v):
        blank = torch.empty(q.size(0), q.size(1), k.size(1), dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(blank, q, k.transpose(-1, -2), beta=0, alpha=self.scale)  # HOT
        probs = F.softmax(scores, dim=-1, dtype=torch.float32).to(v.dtype)  # HOT
        return torch.bmm(probs, v)  # HOT

    def forward(self, image, prompt):
        q, k, v = map(self.fold, (self.to_q(image), self.to_k(prompt), self.to_v(prompt)))
        return image + self.unfold(self.attend(q, k, v))


class GuidedCrossFixed(GuidedCross):
    def attend(self, q, k, v):
        q, k, v = (t.unflatten(0, (-1, self.heads)) for t in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, scale=self.scale).flatten(0, 1)


def build():
    torch.manual_seed(0)
    return GuidedCross(), (torch.randn(2, 1024, 128), torch.randn(2, 308, 96))


def build_fixed():
    slow, inputs = build()
    fast = GuidedCrossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
