"""C1101: layout helpers that copy around a purely elementwise response norm."""
import torch
from torch import nn

expected = {
    "case": "C1101",
    "polarity": "positive",
    "kind": "contiguous_churn",
    "hot_lines": [19, 23],
    "fix": "drop_contiguous",
    "auto_fix_safe": True,
    "why": "norm, mean and the affine part read any strides, the copies are neither viewed nor returned; the sum with x decides the layout",
    "hot_share_cpu": 0.39,
    "speedup_cpu": 4.28,
}


def to_last(t):
    return t.permute(0, 2, 3, 1).contiguous()  # HOT


def to_first(t):
    return t.permute(0, 3, 1, 2).contiguous()  # HOT


class ResponseNorm(nn.Module):
    def __init__(self, dim=96, eps=1e-6):
        super().__init__()
        self.gamma = nn.Parameter(torch.rand(1, 1, 1, dim))
        self.beta = nn.Parameter(torch.rand(1, 1, 1, dim))
        self.eps = eps

    def forward(self, x):
        y = to_last(x)
        energy = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
        ratio = energy / (energy.mean(dim=-1, keepdim=True) + self.eps)
        y = self.gamma * ratio * y + self.beta
        return x + to_first(y)


class ResponseNormFixed(ResponseNorm):
    def forward(self, x):
        y = x.permute(0, 2, 3, 1)
        energy = torch.norm(y, p=2, dim=(1, 2), keepdim=True)
        ratio = energy / (energy.mean(dim=-1, keepdim=True) + self.eps)
        y = self.gamma * ratio * y + self.beta
        return x + y.permute(0, 3, 1, 2)


def build():
    torch.manual_seed(0)
    return ResponseNorm(), (torch.randn(4, 96, 48, 48),)


def build_fixed():
    slow, inputs = build()
    fast = ResponseNormFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
