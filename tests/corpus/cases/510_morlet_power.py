"""C510 (after EEG decoding code): band power of epochs through a bank of Morlet wavelets."""
import math

import torch
from torch import nn

expected = {
    "case": "C510",
    "polarity": "positive",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [29, 30, 31, 40],
    "fix": "non_persistent_buffer",
    "auto_fix_safe": True,
    "why": "the bank depends on literals of the module file only, is never written, and the epochs have one dtype",
    "hot_share_cpu": 0.87,
    "speedup_cpu": 6.44,
}

RATE = 250.0
CYCLES = 6.0
BANDS = tuple(float(hz) for hz in range(4, 52))


def morlet_bank(half=1000):
    """Cosine and sine wavelets, (bands, 2 * half + 1) each."""
    t = torch.arange(-half, half + 1) / RATE
    hz = torch.tensor(BANDS).unsqueeze(1)
    width = CYCLES / (2 * math.pi * hz)
    envelope = torch.exp(-0.5 * (t / width) ** 2)  # HOT
    phase = 2 * math.pi * hz * t  # HOT
    return envelope * torch.cos(phase), envelope * torch.sin(phase)  # HOT


class BandPowerNet(nn.Module):
    def __init__(self, electrodes=4, classes=3):
        super().__init__()
        self.classify = nn.Linear(electrodes * len(BANDS), classes)

    def forward(self, epochs):
        real, imag = morlet_bank()  # HOT
        power = (epochs @ real.t()) ** 2 + (epochs @ imag.t()) ** 2
        return self.classify(torch.log1p(power).flatten(1))


class BandPowerNetFixed(BandPowerNet):
    def __init__(self, electrodes=4, classes=3):
        super().__init__(electrodes, classes)
        real, imag = morlet_bank()
        self.register_buffer("real", real, persistent=False)
        self.register_buffer("imag", imag, persistent=False)

    def forward(self, epochs):
        power = (epochs @ self.real.t()) ** 2 + (epochs @ self.imag.t()) ** 2
        return self.classify(torch.log1p(power).flatten(1))


def build():
    torch.manual_seed(0)
    return BandPowerNet(), (torch.randn(6, 4, 2001),)


def build_fixed():
    slow, inputs = build()
    fast = BandPowerNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
