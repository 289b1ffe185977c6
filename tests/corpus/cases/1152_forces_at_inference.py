"""C1152 negative: evaluation code whose forces are a gradient of the energy."""
import torch
from torch import nn

expected = {
    "case": "C1152",
    "polarity": "negative",
    "kind": "missing_no_grad",
    "hot_lines": [24, 27, 31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the result has no grad and eval() is set, but autograd.grad inside needs the graph that no_grad would not record",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.34,
    "speedup_cpu": None,
}


class ForceField(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, width), nn.SiLU(), nn.Linear(width, 1))

    def predict(self, pos):  # LOOKS-HOT
        self.eval()
        pos = pos.detach().requires_grad_(True)
        energy = self.body(pos).sum(dim=(1, 2))  # LOOKS-HOT
        forces = -torch.autograd.grad(energy.sum(), pos)[0]
        return {"energy": energy.detach(), "forces": forces}

    def forward(self, pos):  # LOOKS-HOT
        out = self.predict(pos)
        return out["energy"], out["forces"]


class ForceFieldNaive(ForceField):
    @torch.no_grad()
    def forward(self, pos):
        return super().forward(pos)


def build():
    torch.manual_seed(0)
    return ForceField(), (torch.randn(32, 256, 3),)


def build_naive_fix():
    slow, inputs = build()
    naive = ForceFieldNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
