"""C1015: missing cells replaced by a learned default per column, mask on both sides."""
import torch
from torch import nn

expected = {
    "case": "C1015",
    "polarity": "positive",
    "kind": "bool_mask_assign",
    "hot_lines": [28],
    "fix": "torch.where",
    "auto_fix_safe": True,
    "why": "filled is a private clone, one mask indexes both sides, and the default row broadcasts: where(hole, default, table) is the same",
    "hot_share_cpu": 0.91,
    "speedup_cpu": 3.14,
}


class MissingValueNet(nn.Module):
    def __init__(self, columns=96, width=4):
        super().__init__()
        self.default = nn.Parameter(torch.randn(columns))
        self.lin = nn.Linear(columns, width)

    def impute(self, table):
        hole = torch.isnan(table)
        default = self.default.expand_as(table)
        filled = table.clone()
        filled[hole] = default[hole]  # HOT
        return filled

    def forward(self, table):
        return self.lin(self.impute(table)).tanh()


class MissingValueNetFixed(MissingValueNet):
    def impute(self, table):
        return torch.where(torch.isnan(table), self.default, table)


def build():
    torch.manual_seed(0)
    table = torch.randn(2048, 96)
    table[torch.rand(2048, 96) < 0.4] = float("nan")
    return MissingValueNet(), (table,)


def build_fixed():
    slow, inputs = build()
    fast = MissingValueNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
