"""D704 (kind of project: seismology, a convolutional phase picker for three-component waveforms): biased convolutions under batch norm."""
from collections import OrderedDict

import torch
from torch import nn

expected = {
    "case": "D704",
    "polarity": "positive",
    "kind": "conv_bias_before_bn",
    "hot_lines": [22, 25, 42],
    "fix": "bias_false",
    "auto_fix_safe": False,
    "why": "the mean that batch norm takes off contains the bias; dropping it changes the parameters and old checkpoints no longer load",
    "hot_share_cpu": 0.99,
    "speedup_cpu": 0.99,
}


def trunk(width, bias):
    return nn.Sequential(OrderedDict([
        ("stem", nn.Conv1d(3, width, kernel_size=7, padding=3, bias=bias)),  # HOT
        ("stem_norm", nn.BatchNorm1d(width)),
        ("stem_act", nn.ReLU(inplace=True)),
        ("mix", nn.Conv1d(width, width, kernel_size=1, bias=bias)),  # HOT
        ("mix_norm", nn.BatchNorm1d(width)),
        ("mix_act", nn.ReLU(inplace=True)),
        ("shrink", nn.AvgPool1d(8)),
    ]))


class PhasePicker(nn.Module):
    """Probabilities of noise, P and S for every eighth sample."""

    def __init__(self, width=12, bias=True):
        super().__init__()
        self.trunk = trunk(width, bias)
        self.pick = nn.Conv1d(width, 3, kernel_size=1)

    def forward(self, trace):
        trace = trace / trace.abs().amax(dim=-1, keepdim=True)
        return self.pick(self.trunk(trace)).softmax(dim=1)  # HOT


def build():
    torch.manual_seed(0)
    return PhasePicker(), (torch.randn(16, 3, 3000),)


def build_fixed():
    slow, inputs = build()
    fast = PhasePicker(bias=False)
    fast.load_state_dict(slow.state_dict(), strict=False)
    return fast, inputs
