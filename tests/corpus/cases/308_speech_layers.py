"""C308 (after whisper#2359, axlearn#18): d**-0.25 on both operands, -inf buffer added, float softmax, dropout that is off."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C308",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [24, 25, 26, 27],
    "fix": "scaled_dot_product_attention(attn_mask=bias)",
    "auto_fix_safe": True,
    "why": "two factors d**-0.25 make the default scale, no causal row is fully masked, and dropout applies only in training",
    "hot_share_cpu": 0.75,
    "speedup_cpu": 1.74,
}


def read_past(q, k, v, heads, bias, drop):
    scale = (q.size(-1) // heads) ** -0.25
    q = q.view(*q.shape[:2], heads, -1).permute(0, 2, 1, 3) * scale
    k = k.view(*k.shape[:2], heads, -1).permute(0, 2, 3, 1) * scale
    v = v.view(*v.shape[:2], heads, -1).permute(0, 2, 1, 3)
    qk = q @ k  # HOT
    qk = qk + bias[: q.size(2), : q.size(2)]  # HOT
    w = drop(F.softmax(qk.float(), dim=-1).to(q.dtype))  # HOT
    return (w @ v).permute(0, 2, 1, 3).flatten(start_dim=2)  # HOT


class SpeechLayers(nn.Module):
    read = staticmethod(read_past)

    def __init__(self, width=128, heads=4, layers=3, longest=448):
        super().__init__()
        self.heads = heads
        self.inp = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.drop = nn.Dropout(0.1)
        self.register_buffer("bias", torch.full((longest, longest), -torch.inf).triu_(1), persistent=False)

    def forward(self, x):
        for inp, out in zip(self.inp, self.out):
            parts = inp(F.layer_norm(x, x.shape[-1:])).chunk(3, dim=-1)
            x = x + out(self.read(*parts, self.heads, self.bias, self.drop))
        return x


class SpeechLayersFixed(SpeechLayers):
    @staticmethod
    def read(q, k, v, heads, bias, drop):
        q, k, v = (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in (q, k, v))
        p = drop.p if drop.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[: q.size(2), : q.size(2)], dropout_p=p)
        return y.transpose(1, 2).flatten(start_dim=2)


def build():
    torch.manual_seed(0)
    return SpeechLayers().eval(), (torch.randn(2, 400, 128),)


def build_fixed():
    slow, inputs = build()
    fast = SpeechLayersFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
