"""C850 (after 4uiiurz1/pytorch-nested-unet#39, milesial/Pytorch-UNet#325, KAIR#4): conv layers keep a bias that BatchNorm removes again."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C850",
    "polarity": "positive",
    "kind": "conv_bias_before_bn",
    "hot_lines": [23, 25, 29, 30],
    "fix": "bias=False",
    "auto_fix_safe": False,
    "why": "the batch mean swallows the bias, its gradient is zero; dropping it removes keys from state_dict, so old checkpoints break",
    "hot_share_cpu": 0.08,
    "speedup_cpu": 1.08,
}


class VGGBlock(nn.Module):
    def __init__(self, in_channels, middle_channels, out_channels):
        super().__init__()
        self.relu = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(in_channels, middle_channels, 3, padding=1)  # HOT
        self.bn1 = nn.BatchNorm2d(middle_channels)
        self.conv2 = nn.Conv2d(middle_channels, out_channels, 3, padding=1)  # HOT
        self.bn2 = nn.BatchNorm2d(out_channels)

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))  # HOT
        return self.relu(self.bn2(self.conv2(out)))  # HOT


class UNetStep(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.pool = nn.MaxPool2d(2, 2)
        self.up = nn.Upsample(scale_factor=2, mode="nearest")
        self.conv0_0 = VGGBlock(3, 8, 8)
        self.conv1_0 = VGGBlock(8, 16, 16)
        self.conv0_1 = VGGBlock(24, 8, 8)
        self.final = nn.Conv2d(8, classes, kernel_size=1)

    def forward(self, x, target):
        x0_0 = self.conv0_0(x)
        x1_0 = self.conv1_0(self.pool(x0_0))
        x0_1 = self.conv0_1(torch.cat([x0_0, self.up(x1_0)], 1))
        loss = F.cross_entropy(self.final(x0_1), target)
        self.zero_grad()
        loss.backward()
        return loss.detach()


def build():
    torch.manual_seed(0)
    return UNetStep(), (torch.randn(2, 3, 12, 12), torch.randint(0, 2, (2, 12, 12)))


def build_fixed():
    fast, inputs = build()
    for block in (fast.conv0_0, fast.conv1_0, fast.conv0_1):
        block.conv1.bias = block.conv2.bias = None
    return fast, inputs
