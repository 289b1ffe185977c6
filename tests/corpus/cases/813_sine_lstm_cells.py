"""C813 (after pytorch/examples time_sequence_prediction and pytorch/examples#80): two LSTMCells stepped by hand over a wave."""
import torch
import torch.nn as nn

expected = {
    "case": "C813",
    "polarity": "positive",
    "kind": "cell_time_loop",
    "hot_lines": [33, 34, 35],
    "fix": "nn.LSTM(num_layers=2)",
    "auto_fix_safe": False,
    "why": "the two cells are exactly a two-layer nn.LSTM, but the parameters are renamed and checkpoints must be converted",
    "hot_share_cpu": 0.83,
    "speedup_cpu": 15.68,
}


class Sequence(nn.Module):
    def __init__(self, hidden=51):
        super(Sequence, self).__init__()
        self.hidden = hidden
        self.lstm1 = nn.LSTMCell(1, hidden)
        self.lstm2 = nn.LSTMCell(hidden, hidden)
        self.linear = nn.Linear(hidden, 1)

    def forward(self, input):
        outputs = []
        h_t = torch.zeros(input.size(0), self.hidden, device=input.device)
        c_t = torch.zeros(input.size(0), self.hidden, device=input.device)
        h_t2 = torch.zeros(input.size(0), self.hidden, device=input.device)
        c_t2 = torch.zeros(input.size(0), self.hidden, device=input.device)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))  # HOT
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))  # HOT
            outputs += [self.linear(h_t2)]  # HOT
        return torch.cat(outputs, dim=1)


class SequenceFixed(nn.Module):
    def __init__(self, slow):
        super(SequenceFixed, self).__init__()
        self.lstm = nn.LSTM(1, slow.hidden, num_layers=2, batch_first=True)
        self.linear = nn.Linear(slow.hidden, 1)
        state = {f"linear.{k}": v for k, v in slow.linear.state_dict().items()}
        for layer, cell in enumerate((slow.lstm1, slow.lstm2)):
            state.update({f"lstm.{k}_l{layer}": v for k, v in cell.state_dict().items()})
        self.load_state_dict(state)

    def forward(self, input):
        hidden, _ = self.lstm(input.unsqueeze(-1))
        return self.linear(hidden).squeeze(-1)


def build():
    torch.manual_seed(0)
    phase = torch.rand(4, 1) * 80
    return Sequence(), (torch.sin((torch.arange(100) + phase) / 20),)


def build_fixed():
    slow, inputs = build()
    return SequenceFixed(slow), inputs
