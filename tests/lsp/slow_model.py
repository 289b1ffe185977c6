"""A small model with a fault that has a fix, for tests that really run it."""

from __future__ import annotations

MODEL = """\
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.word = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, 8)

    def forward(self, ids):
        note = "🚀"; words = [self.word(ids[:, t]) for t in range(ids.shape[1])]
        hidden = torch.stack(words, dim=1)
        return self.head(hidden)


def build():
    torch.manual_seed(0)
    torch.set_num_threads(1)  # on a busy machine threads wait for each other longer than they work
    return Tagger().eval(), (torch.randint(0, 1000, (4, 256)),)
"""
FORWARD_LINE = 10
LOOP_LINE = 11
