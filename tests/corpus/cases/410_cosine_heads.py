"""C410 (after window attention with cosine scores, Swin V2 kind, in re-implementations): heads are cut by chunk and run in turn."""
import torch
from torch import nn
import torch.nn.functional as F

expected = {
    "case": "C410",
    "polarity": "positive",
    "kind": "head_loop",
    "hot_lines": [33, 34, 35],
    "fix": "batch_heads",
    "auto_fix_safe": True,
    "why": "heads never meet before the concatenation and all have one width; a head dimension carries the same products",
    "hot_share_cpu": 0.85,
    "speedup_cpu": 4.82,
}


class CosineWindowAttention(nn.Module):
    def __init__(self, dim=96, heads=24, window=9):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(dim, dim * 3, bias=False)
        self.log_tau = nn.Parameter(torch.log(torch.linspace(2.0, 10.0, heads)))
        self.place = nn.Parameter(torch.randn(heads, window, window) * 0.02)
        self.out = nn.Linear(dim, dim)

    def mix(self, q, k, v):
        tau = self.log_tau.clamp(max=4.6).exp()
        parts = (t.chunk(self.heads, dim=-1) for t in (q, k, v))
        merged = []
        for qh, kh, vh, temp, place in zip(*parts, tau, self.place):
            sim = torch.einsum("wid,wjd->wij", F.normalize(qh, dim=-1), F.normalize(kh, dim=-1))  # HOT
            att = (sim * temp + place).softmax(dim=-1)  # HOT
            merged.append(att.matmul(vh))  # HOT
        return torch.cat(merged, dim=-1)

    def forward(self, windows):
        q, k, v = self.to_qkv(windows).chunk(3, dim=-1)
        return self.out(self.mix(q, k, v))


class CosineWindowAttentionFixed(CosineWindowAttention):
    def mix(self, q, k, v):
        tau = self.log_tau.clamp(max=4.6).exp()[:, None, None]
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        att = (sim * tau + self.place).softmax(dim=-1)
        return (att @ v).transpose(1, 2).flatten(2)


def build():
    torch.manual_seed(0)
    return CosineWindowAttention(), (torch.randn(4, 9, 96),)


def build_fixed():
    slow, inputs = build()
    fast = CosineWindowAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
