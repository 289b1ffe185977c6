"""C152 negative (after last-observation-carried-forward in GRU-D ports): torch.where per step, reading what the step before wrote."""
import torch
from torch import nn

expected = {
    "case": "C152",
    "polarity": "negative",
    "kind": "where_loop",
    "hot_lines": [21],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "a gap of two or more steps needs the value already carried into the step before; one shifted where only fills gaps of one step",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.89,
    "speedup_cpu": None,
}


def carry_forward(values, seen):
    for t in range(1, values.size(1)):
        values[:, t] = torch.where(seen[:, t], values[:, t], values[:, t - 1])  # LOOKS-HOT
    return values


def carry_forward_at_once(values, seen):
    values[:, 1:] = torch.where(seen[:, 1:], values[:, 1:], values[:, :-1])
    return values


class WardMonitor(nn.Module):
    fill = staticmethod(carry_forward)

    def __init__(self, sensors=9):
        super().__init__()
        self.risk = nn.Linear(2 * sensors, 1)

    def forward(self, readings, seen):
        filled = self.fill(readings.masked_fill(~seen, 0.0), seen)
        return self.risk(torch.cat([filled, seen.to(filled.dtype)], dim=-1)).squeeze(-1)


class WardMonitorNaive(WardMonitor):
    fill = staticmethod(carry_forward_at_once)


def build():
    torch.manual_seed(27)
    return WardMonitor(), (torch.randn(6, 70, 9), torch.rand(6, 70, 9) < 0.3)


def build_naive_fix():
    slow, inputs = build()
    naive = WardMonitorNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
