"""C310 (after SEDLM#1, attorch#11): two stacked LSTMCells driven by hand, the cell call in a helper of the layer loop."""
import torch
from torch import nn

expected = {
    "case": "C310",
    "polarity": "positive",
    "kind": "cell_time_loop",
    "hot_lines": [28],
    "fix": "nn.LSTM(num_layers=2)",
    "auto_fix_safe": False,
    "why": "the fused module is equal, but the parameter names change and with them every checkpoint",
    "hot_share_cpu": 0.80,
    "speedup_cpu": 14.56,
}


class TwoStorey(nn.Module):
    def __init__(self, width=24, state=40):
        super().__init__()
        self.storeys = nn.ModuleList([nn.LSTMCell(width, state), nn.LSTMCell(state, state)])
        self.top = nn.Linear(state, 5)

    def walk(self, cell, seq):
        h = c = seq.new_zeros(seq.size(1), cell.hidden_size)
        seen = []
        for x_t in seq:
            h, c = cell(x_t, (h, c))  # HOT
            seen.append(h)
        return torch.stack(seen)

    def forward(self, seq):
        for cell in self.storeys:
            seq = self.walk(cell, seq)
        return self.top(seq)


class TwoStoreyFixed(nn.Module):
    def __init__(self, slow):
        super().__init__()
        first = slow.storeys[0]
        self.rnn = nn.LSTM(first.input_size, first.hidden_size, num_layers=len(slow.storeys))
        self.top = slow.top
        with torch.no_grad():
            for i, cell in enumerate(slow.storeys):
                for name, value in cell.named_parameters():
                    getattr(self.rnn, f"{name}_l{i}").copy_(value)

    def forward(self, seq):
        return self.top(self.rnn(seq)[0])


def build():
    torch.manual_seed(0)
    return TwoStorey(), (torch.randn(80, 4, 24),)


def build_fixed():
    slow, inputs = build()
    return TwoStoreyFixed(slow), inputs
