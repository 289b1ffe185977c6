"""C610 (after activity recognition code for wearables): two stacked LSTM cells stepped over the frames of a clip."""
import torch
from torch import nn

expected = {
    "case": "C610",
    "polarity": "positive",
    "kind": "cell_time_loop",
    "hot_lines": [32],
    "fix": "nn.LSTM(num_layers=2)",
    "auto_fix_safe": False,
    "why": "plain stacked cells are what nn.LSTM computes, but the parameters get other names, which breaks checkpoints",
    "hot_share_cpu": 0.89,
    "speedup_cpu": 18.46,
}


class GaitNet(nn.Module):
    def __init__(self, sensors=9, width=32, depth=2, classes=6):
        super().__init__()
        sizes = [sensors] + [width] * depth
        self.cells = nn.ModuleList(map(nn.LSTMCell, sizes[:-1], sizes[1:]))
        self.label = nn.Linear(width, classes)

    def initial(self, clip):
        zero = clip.new_zeros(clip.size(1), self.label.in_features)
        return [(zero, zero) for _ in self.cells]

    def step(self, frame, states):
        fresh = []
        for cell, state in zip(self.cells, states):
            h, c = cell(frame, state)  # HOT
            fresh.append((h, c))
            frame = h
        return frame, fresh

    def forward(self, clip):
        states, seen = self.initial(clip), []
        for frame in clip:
            top, states = self.step(frame, states)
            seen.append(top)
        return self.label(torch.stack(seen).mean(dim=0))


class GaitNetFixed(nn.Module):
    def __init__(self, slow):
        super().__init__()
        first, depth = slow.cells[0], len(slow.cells)
        self.rnn = nn.LSTM(first.input_size, first.hidden_size, num_layers=depth)
        self.rnn.load_state_dict({f"{k}_l{i}": v for i, cell in enumerate(slow.cells) for k, v in cell.state_dict().items()})
        self.label = slow.label

    def forward(self, clip):
        return self.label(self.rnn(clip)[0].mean(dim=0))


def build():
    torch.manual_seed(0)
    return GaitNet(), (torch.randn(120, 4, 9),)


def build_fixed():
    slow, inputs = build()
    return GaitNetFixed(slow), inputs
