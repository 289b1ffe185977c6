"""D751 negative (kind of project: medical imaging, a residual net with an exchangeable norm layer): the layers named bn are group norms."""
from functools import partial

import torch
from torch import nn

expected = {
    "case": "D751",
    "polarity": "negative",
    "kind": "conv_bias_before_bn",
    "hot_lines": [24, 26, 31, 32],
    "must_not": "flag conv_bias_before_bn",
    "auto_fix_safe": False,
    "why": "a group norm takes off one mean for several channels, so the bias per channel stays visible in the result",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.85,
    "speedup_cpu": None,
}


class Block(nn.Module):
    def __init__(self, width, norm_layer, bias=True):
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1, bias=bias)  # LOOKS-HOT
        self.bn1 = norm_layer(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=bias)  # LOOKS-HOT
        self.bn2 = norm_layer(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))  # LOOKS-HOT
        out = self.bn2(self.conv2(out))  # LOOKS-HOT
        return self.relu(out + x)


class ScanNet(nn.Module):
    """Batches of one or two scans are too small for statistics over the batch."""

    def __init__(self, width=16, norm_layer=None, bias=True):
        super().__init__()
        norm_layer = norm_layer or partial(nn.GroupNorm, 4)
        self.stem = nn.Conv2d(1, width, 3, stride=2, padding=1)
        self.body = nn.ModuleList(Block(width, norm_layer, bias) for _ in range(2))
        self.fc = nn.Linear(width, 3)

    def forward(self, scan):
        x = self.stem(scan)
        for block in self.body:
            x = block(x)
        return self.fc(x.mean(dim=(2, 3)))


def build():
    torch.manual_seed(0)
    return ScanNet(), (torch.randn(2, 1, 144, 144),)


def build_naive_fix():
    slow, inputs = build()
    naive = ScanNet(bias=False)
    naive.load_state_dict(slow.state_dict(), strict=False)
    return naive, inputs
