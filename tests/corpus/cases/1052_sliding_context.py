"""C1052 negative: a sequence grown by torch.cat whose last samples are the next step's input."""
import torch
from torch import nn

expected = {
    "case": "C1052",
    "polarity": "negative",
    "kind": "cat_in_loop",
    "hot_lines": [31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "track[:, -context:] is read in every turn, so the joined tensor must be up to date; a list filled until the end leaves it stale",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.36,
    "speedup_cpu": None,
}


class SlideSampler(nn.Module):
    def __init__(self, context=8, steps=90):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(context, 24), nn.Tanh(), nn.Linear(24, 1))
        self.context = context
        self.steps = steps

    def forward(self, track):
        made = 0
        while made < self.steps:
            window = track[:, -self.context :]
            nxt = self.net(window)
            track = torch.cat([track, nxt], dim=1)  # LOOKS-HOT
            made += 1
        return track


class SlideSamplerNaive(SlideSampler):
    def forward(self, track):
        parts = [track]
        for _ in range(self.steps):
            parts.append(self.net(track[:, -self.context :]))
        return torch.cat(parts, dim=1)


def build():
    torch.manual_seed(0)
    return SlideSampler(), (torch.randn(32, 600),)


def build_naive_fix():
    slow, inputs = build()
    naive = SlideSamplerNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
