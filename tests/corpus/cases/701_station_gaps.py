"""D701 (kind of project: air-quality forecasting service on station data): every stage counts its gaps and branches on the count."""
import torch
from torch import nn

expected = {
    "case": "D701",
    "polarity": "positive",
    "kind": "graph_break",
    "hot_lines": [21, 22],
    "fix": "branch_free_fill",
    "auto_fix_safe": False,
    "why": "filling without asking gives the same numbers (infinities kept), but the note about missing readings goes: the owner decides",
    "compiled_graphs": {"calls": 1, "slow": 5, "fixed": 1},
    "hot_share_cpu": 0.71,
    "speedup_cpu": 3.34,
}


def fill_gaps(x, stage):
    """Sensors drop out now and then; leave a note of where the hole was found."""
    missing = torch.isnan(x).sum().item()  # HOT
    if missing > 0:  # HOT
        print(f"[{stage}] {missing} missing readings set to the mean")
        x = torch.where(torch.isnan(x), torch.zeros_like(x), x)
    return x


def fill_gaps_quietly(x, stage):
    return torch.nan_to_num(x, nan=0.0, posinf=float("inf"), neginf=float("-inf"))


class StationSummary(nn.Module):
    """Hourly readings (batch, hours, stations) -> tomorrow's index per district."""

    fill = staticmethod(fill_gaps)

    def __init__(self, stations=64, districts=6):
        super().__init__()
        self.register_buffer("mean", torch.rand(stations) * 30)
        self.register_buffer("std", 1 + torch.rand(stations))
        self.head = nn.Linear(2 * stations, districts)

    def forward(self, readings):
        level = self.fill((readings - self.mean) / self.std, "level")
        change = self.fill(level[:, 1:] - level[:, :-1], "change")
        return self.head(torch.cat([level.mean(1), change.mean(1)], dim=-1))


class StationSummaryFixed(StationSummary):
    fill = staticmethod(fill_gaps_quietly)


def build():
    torch.manual_seed(0)
    return StationSummary(), (torch.rand(96, 168, 64) * 40,)


def build_fixed():
    torch.manual_seed(0)
    return StationSummaryFixed(), (torch.rand(96, 168, 64) * 40,)
