"""A forward of about a third of a millisecond."""

import torch
from torch import nn


class TinyMlp(nn.Module):
    def __init__(self, width=96, depth=6):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            h = torch.relu(layer(x))
            x = x + h * 0.5
        return x.softmax(-1)


def build():
    return TinyMlp().eval(), (torch.randn(64, 96),)
