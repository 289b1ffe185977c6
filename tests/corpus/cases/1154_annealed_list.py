"""C1154 negative: a Python list that becomes a tensor in each forward, but never the same one."""
import torch
from torch import nn

expected = {
    "case": "C1154",
    "polarity": "negative",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "anneal() changes the list before each training call, so a buffer made once keeps the first temperatures for ever",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.06,
    "speedup_cpu": None,
}


class AnnealedGates(nn.Module):
    def __init__(self, groups=6000, start=2.0, rate=0.9):
        super().__init__()
        self.temps = [start + 0.0005 * g for g in range(groups)]
        self.rate = rate

    def anneal(self):
        if self.training:
            self.temps = [max(t * self.rate, 0.5) for t in self.temps]

    def forward(self, logits):
        self.anneal()
        temps = torch.tensor(self.temps, dtype=logits.dtype, device=logits.device)  # LOOKS-HOT
        return (logits / temps.unsqueeze(-1)).softmax(dim=-1)


class AnnealedGatesNaive(AnnealedGates):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.tensor(self.temps), persistent=False)

    def forward(self, logits):
        self.anneal()
        return (logits / self.table.unsqueeze(-1)).softmax(dim=-1)


def build():
    torch.manual_seed(0)
    return AnnealedGates(), (torch.randn(1, 6000, 4),)


def build_naive_fix():
    slow, inputs = build()
    naive = AnnealedGatesNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
