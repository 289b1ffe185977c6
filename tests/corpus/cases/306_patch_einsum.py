"""C306 (after WiLoR#17, vision#8182, xformers#1089): attention by two einsums, scaled by the model width, additive padding."""
import torch
import torch.nn.functional as F
from torch import einsum, nn

expected = {
    "case": "C306",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [31, 32, 33, 34],
    "fix": "scaled_dot_product_attention(attn_mask=bias, dropout_p=p if training else 0, scale=width ** -0.5)",
    "auto_fix_safe": True,
    "why": "finite additive mask and weights used once; the scale is that of the whole width, so it must be passed explicitly",
    "hot_share_cpu": 0.69,
    "speedup_cpu": 1.65,
}


def padding_bias(valid, dtype):
    return (1.0 - valid[:, None, None, :].to(dtype)) * -10000.0


class PatchEinsum(nn.Module):
    def __init__(self, dim=256, heads=8, drop=0.1):
        super().__init__()
        self.heads, self.drop, self.scale = heads, drop, dim**-0.5
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.to_out = nn.Linear(dim, dim)

    def mix(self, q, k, v, bias):
        dots = einsum("bihd,bjhd->bhij", q, k) * self.scale  # HOT
        attn = torch.softmax(dots + bias, dim=-1)  # HOT
        attn = F.dropout(attn, p=self.drop, training=self.training)  # HOT
        return einsum("bhij,bjhd->bihd", attn, v)  # HOT

    def forward(self, tokens, valid):
        b, n, _ = tokens.shape
        q, k, v = (part.reshape(b, n, self.heads, -1) for part in self.to_qkv(tokens).chunk(3, dim=-1))
        return self.to_out(self.mix(q, k, v, padding_bias(valid, tokens.dtype)).flatten(2))


class PatchEinsumFixed(PatchEinsum):
    def mix(self, q, k, v, bias):
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        p = self.drop if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=p, scale=self.scale)
        return out.transpose(1, 2)


def build():
    torch.manual_seed(0)
    valid = torch.arange(384)[None] < torch.tensor([[384], [290]])
    return PatchEinsum().eval(), (torch.randn(2, 384, 256), valid)


def build_fixed():
    slow, inputs = build()
    fast = PatchEinsumFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
