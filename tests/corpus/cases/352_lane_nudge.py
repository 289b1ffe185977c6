"""C352 negative (after torch-adaptive-imle#1, and samplers that branch one seed): repeated lanes are nudged in place elsewhere."""
import torch
from torch import nn

expected = {
    "case": "C352",
    "polarity": "negative",
    "kind": "repeat_to_expand",
    "hot_lines": [31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "another method adds to views of the copy; with expand all lanes are one memory and collect every shift, without an error",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.16,
    "speedup_cpu": None,
}


def nudge(lanes, shifts):
    for lane, shift in zip(lanes.unbind(1), shifts):
        lane += shift


class LaneSampler(nn.Module):
    def __init__(self, width=256, lanes=6):
        super().__init__()
        self.start = nn.Linear(width, width)
        self.register_buffer("shifts", torch.randn(lanes, width))

    def branch(self, seed):
        return seed.unsqueeze(1).repeat(1, self.shifts.size(0), 1)  # LOOKS-HOT

    @torch.no_grad()
    def forward(self, context):
        lanes = self.branch(self.start(context))
        nudge(lanes, self.shifts)
        return lanes.relu()


class LaneSamplerNaive(LaneSampler):
    def branch(self, seed):
        return seed.unsqueeze(1).expand(-1, self.shifts.size(0), -1)


def build():
    torch.manual_seed(0)
    return LaneSampler(), (torch.randn(128, 256),)


def build_naive_fix():
    slow, inputs = build()
    naive = LaneSamplerNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
