"""C507 (after recurrent models of irregular clinical series, in the style of GRU-D): missing measurements decay to a learned default."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C507",
    "polarity": "positive",
    "kind": "bool_mask_assign",
    "hot_lines": [31],
    "fix": "torch.where",
    "auto_fix_safe": True,
    "why": "each step writes into its own clone with one mask on both sides; where() also keeps the NaN of missing values out",
    "hot_share_cpu": 0.42,
    "speedup_cpu": 1.55,
}


class DecayImputer(nn.Module):
    """Fills (B, T, V) measurements; `since` holds the hours since the last one of each variable."""

    def __init__(self, variables=24):
        super().__init__()
        self.decay = nn.Parameter(torch.rand(variables, dtype=torch.float64))
        self.default = nn.Parameter(torch.randn(variables, dtype=torch.float64))

    def step(self, values, missing, since, last):
        gamma = torch.exp(-F.relu(self.decay) * since)
        guess = gamma * last + (1.0 - gamma) * self.default
        filled = values.clone()
        filled[missing] = guess[missing]  # HOT
        return filled

    def forward(self, values, observed, since):
        last = self.default.expand_as(values[:, 0])
        series = []
        for step in zip(values.unbind(1), (observed == 0).unbind(1), since.unbind(1)):
            last = self.step(*step, last)
            series.append(last)
        return torch.stack(series, dim=1)


class DecayImputerFixed(DecayImputer):
    def step(self, values, missing, since, last):
        gamma = torch.exp(-F.relu(self.decay) * since)
        guess = gamma * last + (1.0 - gamma) * self.default
        return torch.where(missing, guess, values)


def build():
    torch.manual_seed(0)
    values = torch.randn(32, 48, 24, dtype=torch.float64)
    observed = torch.randint(0, 2, (32, 48, 24))
    values[observed == 0] = float("nan")
    return DecayImputer(), (values, observed, torch.rand(32, 48, 24, dtype=torch.float64) * 6)


def build_fixed():
    slow, inputs = build()
    fast = DecayImputerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
