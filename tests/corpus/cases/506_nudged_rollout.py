"""C506 (after weather and ocean emulators that roll a state forward): the state is kept within physical bounds after each step."""
import torch
from torch import nn

expected = {
    "case": "C506",
    "polarity": "positive",
    "kind": "implicit_host_sync",
    "hot_lines": [32],
    "fix": "unconditional_clamp",
    "auto_fix_safe": True,
    "why": "clamp leaves values within the bounds (and NaN) as they are, so the test decides nothing but a synchronisation per step",
    "hot_share_cpu": 0.46,
    "speedup_cpu": 2.47,
}


class NudgedRollout(nn.Module):
    """Advects the anomalies one cell per step and relaxes them towards the analysis."""

    def __init__(self, variables=6, steps=16, bound=2.5):
        super().__init__()
        self.steps, self.bound = steps, bound
        self.rate = nn.Parameter(torch.linspace(0.02, 0.3, variables).view(-1, 1, 1))

    def step(self, state, analysis):
        return torch.lerp(state.roll(1, dims=-1), analysis, self.rate)

    def forward(self, state, analysis):
        for _ in range(self.steps):
            state = self.step(state, analysis)
            if torch.any(state.abs() > self.bound):  # HOT
                state = torch.clamp(state, min=-self.bound, max=self.bound)
        return state


class NudgedRolloutFixed(NudgedRollout):
    def forward(self, state, analysis):
        for _ in range(self.steps):
            state = self.step(state, analysis)
            state = torch.clamp(state, min=-self.bound, max=self.bound)
        return state


def build():
    torch.manual_seed(0)
    size = (4, 6, 64, 96)
    return NudgedRollout(), (torch.randn(size), torch.randn(size) * 0.9)


def build_fixed():
    slow, inputs = build()
    fast = NudgedRolloutFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
