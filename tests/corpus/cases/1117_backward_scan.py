"""C1117: a right-to-left LSTM stepped by hand through an LSTMCell, written into slices."""
import torch
from torch import nn

expected = {
    "case": "C1117",
    "polarity": "positive",
    "kind": "cell_time_loop",
    "hot_lines": [29, 30],
    "fix": "nn.LSTM_on_flipped_sequence",
    "auto_fix_safe": False,
    "why": "a fused nn.LSTM on the flipped input is equal, but its parameters have other names, so old checkpoints need a mapping",
    "hot_share_cpu": 0.99,
    "speedup_cpu": 17.35,
}


class BackwardScan(nn.Module):
    def __init__(self, dim=24, state=32):
        super().__init__()
        self.cell = nn.LSTMCell(dim, state)

    def forward(self, seq):
        B, T, _ = seq.shape
        h = seq.new_zeros(B, self.cell.hidden_size)
        c = torch.zeros_like(h)
        out = seq.new_empty(B, T, self.cell.hidden_size)
        for t in reversed(range(T)):
            h, c = self.cell(seq[:, t], (h, c))  # HOT
            out[:, t] = h  # HOT
        return out


class BackwardScanFixed(nn.Module):
    def __init__(self, dim=24, state=32):
        super().__init__()
        self.rnn = nn.LSTM(dim, state, batch_first=True)

    def forward(self, seq):
        out, _ = self.rnn(seq.flip(1))
        return out.flip(1)


def build():
    torch.manual_seed(0)
    return BackwardScan(), (torch.randn(8, 120, 24),)


def build_fixed():
    slow, inputs = build()
    fast = BackwardScanFixed()
    fast.rnn.load_state_dict({k + "_l0": v for k, v in slow.cell.state_dict().items()})
    return fast, inputs
