"""C1156 negative: repeat before a view that folds the beams into the batch."""
import torch
from torch import nn

expected = {
    "case": "C1156",
    "polarity": "negative",
    "kind": "repeat_to_expand",
    "hot_lines": [27],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "bmm wants three dims and view cannot merge a stride-0 one, so expand raises; reshape would only make the same copy later",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.41,
    "speedup_cpu": None,
}


class BeamScorer(nn.Module):
    def __init__(self, width=64, vocab=100, beams=5):
        super().__init__()
        self.mix = nn.Linear(width, vocab)
        self.beams = beams

    def forward(self, memory, states):
        b, n, d = memory.shape
        tiled = memory.unsqueeze(1).repeat(1, self.beams, 1, 1)  # LOOKS-HOT
        rows = tiled.view(b * self.beams, n, d)
        weight = torch.bmm(rows, states.unsqueeze(2)).softmax(dim=1)
        context = torch.bmm(weight.transpose(1, 2), rows).squeeze(1)
        return self.mix(context)


class BeamScorerNaive(BeamScorer):
    def forward(self, memory, states):
        b, n, d = memory.shape
        tiled = memory.unsqueeze(1).expand(-1, self.beams, -1, -1)
        rows = tiled.view(b * self.beams, n, d)
        weight = torch.bmm(rows, states.unsqueeze(2)).softmax(dim=1)
        context = torch.bmm(weight.transpose(1, 2), rows).squeeze(1)
        return self.mix(context)


def build():
    torch.manual_seed(0)
    return BeamScorer(), (torch.randn(24, 160, 64), torch.randn(120, 64))


def build_naive_fix():
    slow, inputs = build()
    naive = BeamScorerNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
