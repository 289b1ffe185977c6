"""A small convolutional segmenter for road scenes, as it was moved from a notebook into a service.

Its per-channel gate turns the image over and copies it although it only multiplies and adds. The copy back at its end
goes away with the first: what it would copy is in order then. The coordinates are made on the host and moved, and
autograd records a graph for an answer that is never differentiated.

Expected findings:
    contiguous-churn          x.permute(0, 2, 3, 1).contiguous()
    host-tensor-in-forward    torch.arange(height).to(image.device)
    host-tensor-in-forward    torch.arange(width).to(image.device)
    grad-mode-in-inference    def forward(self, image):
"""

import torch
from torch import nn
from torch.nn import functional as F


class ChannelGate(nn.Module):
    """A learned gain and shift for every channel, with the channels last so that they broadcast."""

    def __init__(self, channels):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        channels_last = x.permute(0, 2, 3, 1).contiguous()
        gated = channels_last * torch.sigmoid(self.gain) + self.shift
        return F.relu(gated.permute(0, 3, 1, 2).contiguous())


class Stage(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.gate = ChannelGate(channels)

    def forward(self, x):
        return x + self.gate(self.depthwise(x))


class Segmenter(nn.Module):
    def __init__(self, channels, stages, classes):
        super().__init__()
        self.stem = nn.Conv2d(5, channels, 3, stride=2, padding=1)
        self.stages = nn.ModuleList(Stage(channels) for _ in range(stages))
        self.head = nn.Conv2d(channels, classes, 1)

    def coordinates(self, image):
        """Two channels that tell every pixel where it is."""
        batch, _, height, width = image.shape
        down = torch.arange(height).to(image.device) / height
        across = torch.arange(width).to(image.device) / width
        grid = torch.stack(torch.meshgrid(down, across, indexing="ij"))
        return grid.expand(batch, 2, height, width)

    def forward(self, image):
        x = self.stem(torch.cat([image, self.coordinates(image)], dim=1))
        for stage in self.stages:
            x = stage(x)
        return F.interpolate(self.head(x), size=image.shape[-2:], mode="bilinear")


def build(channels=32, stages=4, classes=6, batch=2, height=128, width=128):
    torch.manual_seed(0)
    model = Segmenter(channels, stages, classes).eval()
    return model, (torch.rand(batch, 3, height, width),)
