"""D713 (kind of project: rainfall-runoff models, an LSTM by hand whose input gate sees static catchment attributes)."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "D713",
    "polarity": "positive",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [35, 36],
    "fix": "hoist_static_gate_and_input_projection",
    "auto_fix_safe": True,
    "why": "neither the static gate nor the weather term depends on the state, and no weight changes inside the loop",
    "hot_share_cpu": 0.51,
    "speedup_cpu": 1.43,
}


class CatchmentLSTM(nn.Module):
    def __init__(self, weather=32, attributes=96, hidden=32):
        super().__init__()
        self.hidden = hidden
        self.static = nn.Linear(attributes, hidden)
        self.weight_x = nn.Parameter(torch.randn(weather, 3 * hidden) * 0.1)
        self.weight_h = nn.Parameter(torch.randn(hidden, 3 * hidden) * 0.1)
        self.bias = nn.Parameter(torch.zeros(3 * hidden))
        self.runoff = nn.Linear(hidden, 1)

    def forward(self, forcing, attributes):
        """forcing: (days, catchments, weather); attributes: (catchments, attributes)."""
        days, n, _ = forcing.shape
        h = c = forcing.new_zeros(n, self.hidden)
        states = []
        for day in range(days):
            i = torch.sigmoid(self.static(attributes))  # HOT
            gates = torch.addmm(self.bias, h, self.weight_h) + torch.mm(forcing[day], self.weight_x)  # HOT
            f, o, g = gates.chunk(3, dim=1)
            c = torch.sigmoid(f) * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return F.softplus(self.runoff(torch.stack(states, dim=1))).squeeze(-1)


class CatchmentLSTMFixed(CatchmentLSTM):
    def forward(self, forcing, attributes):
        h = c = forcing.new_zeros(forcing.shape[1], self.hidden)
        i = torch.sigmoid(self.static(attributes))
        projected = forcing @ self.weight_x + self.bias
        states = []
        for term in projected:
            f, o, g = torch.addmm(term, h, self.weight_h).chunk(3, dim=1)
            c = torch.sigmoid(f) * c + i * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return F.softplus(self.runoff(torch.stack(states, dim=1))).squeeze(-1)


def build(cls=CatchmentLSTM):
    torch.manual_seed(0)
    return cls(), (torch.randn(80, 64, 32), torch.randn(64, 96))


def build_fixed():
    return build(CatchmentLSTMFixed)
