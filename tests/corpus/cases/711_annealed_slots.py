"""D711 (kind of project: discrete latent model of user intents): a temperature that follows a Python call counter."""
import math

import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "D711",
    "polarity": "positive",
    "kind": "recompile_python_state",
    "hot_lines": [38, 42],
    "fix": "counter_as_buffer",
    "auto_fix_safe": False,
    "why": "a buffer changes the state dict (unless it is not persistent), and readers of the counter get a tensor",
    "compiled_graphs": {"calls": 6, "slow": 6, "fixed": 1},
    "timing": "compile",
    "hot_share_cpu": 0.72,
    "speedup_cpu": 3.59,
}


class IntentSlots(nn.Module):
    """Soft assignment of sessions to intents; sharpens as training goes on."""

    def __init__(self, width=32, intents=200, start=2.0, floor=0.3, rate=1e-2):
        super().__init__()
        self.query = nn.Linear(width, intents, bias=False)
        self.values = nn.Parameter(torch.randn(intents, 8))
        self.start, self.floor, self.rate = start, floor, rate
        self.seen = 0

    @property
    def temperature(self):
        return max(self.floor, self.start * math.exp(-self.rate * self.seen))

    def tick(self):
        self.seen += 1  # HOT

    def forward(self, sessions):
        self.tick()
        weights = F.softmax(self.query(sessions) / self.temperature, dim=-1)  # HOT
        return weights @ self.values


class IntentSlotsFixed(IntentSlots):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        del self.seen
        self.register_buffer("seen", torch.zeros(()), persistent=False)

    @property
    def temperature(self):
        return (self.start * torch.exp(-self.rate * self.seen)).clamp(min=self.floor)

    def tick(self):
        self.seen.add_(1)


def build(cls=IntentSlots):
    torch.manual_seed(0)
    return cls(), (torch.randn(4096, 32),)


def build_fixed():
    return build(IntentSlotsFixed)
