"""C913 (after landskape-ai/triplet-attention triplet_attention.py): each branch copies the map into a rotated layout and back."""
import torch
from torch import nn

expected = {
    "case": "C913",
    "polarity": "positive",
    "kind": "contiguous_churn",
    "hot_lines": [43, 45, 46, 48],
    "fix": "drop_contiguous",
    "auto_fix_safe": True,
    "why": "the gate only reduces over dim 1, convolves a two-channel map and multiplies: every consumer accepts strides, nothing is viewed",
    "hot_share_cpu": 0.40,
    "speedup_cpu": 2.69,
}


class ZPool(nn.Module):
    def forward(self, x):
        return torch.cat((x.amax(1, keepdim=True), x.mean(1, keepdim=True)), dim=1)


class AttentionGate(nn.Module):
    def __init__(self, kernel_size=3):
        super().__init__()
        self.compress = ZPool()
        self.conv = nn.Conv2d(2, 1, kernel_size, padding=(kernel_size - 1) // 2, bias=False)

    def forward(self, x):
        x_compress = self.compress(x)
        scale = torch.sigmoid(self.conv(x_compress))
        return x * scale


class TripletAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.cw = AttentionGate()
        self.hc = AttentionGate()
        self.hw = AttentionGate()

    def forward(self, x):
        x_perm1 = x.permute(0, 2, 1, 3).contiguous()  # HOT
        x_out1 = self.cw(x_perm1)
        x_out11 = x_out1.permute(0, 2, 1, 3).contiguous()  # HOT
        x_perm2 = x.permute(0, 3, 2, 1).contiguous()  # HOT
        x_out2 = self.hc(x_perm2)
        x_out21 = x_out2.permute(0, 3, 2, 1).contiguous()  # HOT
        return (self.hw(x) + x_out11 + x_out21) / 3


class TripletAttentionFixed(TripletAttention):
    def forward(self, x):
        x_out11 = self.cw(x.permute(0, 2, 1, 3)).permute(0, 2, 1, 3)
        x_out21 = self.hc(x.permute(0, 3, 2, 1)).permute(0, 3, 2, 1)
        return (self.hw(x) + x_out11 + x_out21) / 3


def build():
    torch.manual_seed(0)
    return TripletAttention(), (torch.randn(8, 64, 32, 32),)


def build_fixed():
    slow, inputs = build()
    fast = TripletAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
