"""C212 (after mere-run#126, torchebm#239): a fixed-step solver that re-reads its constant time span from a tensor each step."""
import torch
from torch import nn

expected = {
    "case": "C212",
    "polarity": "positive",
    "kind": "loop_invariant_host_sync",
    "hot_lines": [31],
    "fix": "hoist_read_before_loop",
    "auto_fix_safe": True,
    "why": "span is never written inside the loop, so the step is the same Python float each time: one sync instead of one per step",
    "hot_share_cpu": 0.17,
    "speedup_cpu": 1.36,
}


class FlowIntegrator(nn.Module):
    def __init__(self, width=12, steps=40):
        super().__init__()
        self.steps = steps
        self.field = nn.Linear(width, width)
        self.drag = nn.Parameter(torch.tensor(0.3))

    def slope(self, state):
        return torch.tanh(self.field(state)) - self.drag * state

    def forward(self, state, span):
        k = 0
        while k < self.steps:
            dt = float(span[-1] - span[0]) / self.steps  # HOT
            state = torch.add(state, self.slope(state), alpha=dt)
            k += 1
        return {"end": state}["end"]


class FlowIntegratorFixed(FlowIntegrator):
    def forward(self, state, span):
        k = 0
        dt = float(span[-1] - span[0]) / self.steps
        while k < self.steps:
            state = torch.add(state, self.slope(state), alpha=dt)
            k += 1
        return {"end": state}["end"]


def build():
    torch.manual_seed(0)
    return FlowIntegrator(), (torch.randn(4, 12), torch.tensor([0.25, 1.75]))


def build_fixed():
    slow, inputs = build()
    fast = FlowIntegratorFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
