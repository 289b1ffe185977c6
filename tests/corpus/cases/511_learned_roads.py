"""C511 (after traffic forecasting networks with a learned adjacency, in the style of Graph WaveNet): mixing over road sensors."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C511",
    "polarity": "positive",
    "kind": "repeated_invariant_compute",
    "hot_lines": [30, 31, 36],
    "fix": "hoist_before_loop",
    "auto_fix_safe": True,
    "why": "a pure function of two parameters that no layer writes; the gradient of one use is the sum of the gradients of all",
    "hot_share_cpu": 0.46,
    "speedup_cpu": 1.73,
}


class RoadMixer(nn.Module):
    """Adaptive graph convolutions over sensors; the graph is learned from source and target embeddings."""

    def __init__(self, sensors=320, rank=16, width=4, layers=8):
        super().__init__()
        self.source = nn.Parameter(torch.randn(sensors, rank))
        self.target = nn.Parameter(torch.randn(rank, sensors))
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    @property
    def support(self):
        affinity = F.relu(self.source @ self.target)  # HOT
        return F.softmax(affinity, dim=1)  # HOT

    def forward(self, x):
        skip = 0
        for layer in self.layers:
            neighbours = torch.einsum("nm,bmc->bnc", self.support, x)  # HOT
            x = torch.tanh(layer(neighbours)) + x
            skip = skip + x
        return skip


class RoadMixerFixed(RoadMixer):
    def forward(self, x):
        skip = 0
        support = self.support
        for layer in self.layers:
            neighbours = torch.einsum("nm,bmc->bnc", support, x)
            x = torch.tanh(layer(neighbours)) + x
            skip = skip + x
        return skip


def build():
    torch.manual_seed(0)
    return RoadMixer(), (torch.randn(1, 320, 4),)


def build_fixed():
    slow, inputs = build()
    fast = RoadMixerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
