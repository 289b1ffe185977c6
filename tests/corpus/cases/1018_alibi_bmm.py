"""C1018: bmm on (batch*heads, T, d), pre-scaled queries, a linear position bias and dropout."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1018",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [32, 33, 34, 35, 36],
    "fix": "scaled_dot_product_attention(attn_mask=bias, dropout_p only in training)",
    "auto_fix_safe": False,
    "why": "equal in eval; in training the fused kernel draws other dropout numbers, so it is the same only in distribution",
    "hot_share_cpu": 0.77,
    "speedup_cpu": 1.89,
}


class SlopedAttention(nn.Module):
    def __init__(self, width=128, heads=8, longest=384, p=0.1):
        super().__init__()
        self.h, self.d, self.p = heads, width // heads, p
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        slope = 2.0 ** -torch.arange(1.0, heads + 1).view(heads, 1, 1)
        pos = torch.arange(longest)
        self.register_buffer("bias", -slope * (pos[:, None] - pos[None, :]).abs(), persistent=False)

    def attend(self, q, k, v, bias):
        B, T = q.shape[:2]
        q, k, v = [t.view(B, T, self.h, self.d).transpose(1, 2).reshape(B * self.h, T, self.d) for t in (q, k, v)]
        w = torch.bmm(q * self.d ** -0.5, k.transpose(1, 2))  # HOT
        w = w.view(B, self.h, T, T) + bias  # HOT
        w = F.softmax(w, dim=-1)  # HOT
        w = F.dropout(w, p=self.p, training=self.training)  # HOT
        o = torch.bmm(w.view(B * self.h, T, T), v)  # HOT
        return o.view(B, self.h, T, self.d)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        o = self.attend(q, k, v, self.bias[:, : x.size(1), : x.size(1)])
        return self.proj(o.transpose(1, 2).reshape(x.shape))


class SlopedAttentionFixed(SlopedAttention):
    def attend(self, q, k, v, bias):
        q, k, v = [t.unflatten(-1, (self.h, self.d)).transpose(1, 2) for t in (q, k, v)]
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None], dropout_p=self.p if self.training else 0.0)


def build():
    torch.manual_seed(0)
    return SlopedAttention().eval(), (torch.randn(2, 320, 128),)


def build_fixed():
    slow, inputs = build()
    fast = SlopedAttentionFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
