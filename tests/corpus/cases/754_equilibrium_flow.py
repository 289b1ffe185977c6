"""D754 negative (kind of project: implicit graph layer solved to a fixed point): the value read ends the solve many rounds early."""
import torch
from torch import nn

expected = {
    "case": "D754",
    "polarity": "negative",
    "kind": "graph_break_in_loop",
    "hot_lines": [33, 39],
    "must_not": "offer a safe fix that removes the read or the early end",
    "auto_fix_safe": False,
    "why": "without the read every solve runs to the limit of rounds, which costs far more than the reads",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.07,
    "speedup_cpu": 0.16,
}


class TrafficEquilibrium(nn.Module):
    """Density on every road segment, where inflow and outflow agree."""

    def __init__(self, segments=160, width=24, tol=1e-6, limit=80):
        super().__init__()
        road = torch.rand(segments, segments) * (torch.rand(segments, segments) < 0.05)
        self.register_buffer("road", road / road.sum(1, keepdim=True).clamp(min=1e-6))
        self.mix = nn.Parameter(torch.linalg.qr(torch.randn(width, width)).Q * 0.3)
        self.inject = nn.Linear(6, width)
        self.read_out = nn.Linear(width, 1)
        self.tol, self.limit = tol, limit

    def settled(self, new, old):
        gap = (new - old).norm() / new.norm().clamp(min=1e-12)
        return gap.item() < self.tol  # LOOKS-HOT

    def solve(self, source):
        z, k = torch.zeros_like(source), 0
        while k < self.limit:
            new = torch.tanh(torch.einsum("st,btw,wv->bsv", self.road, z, self.mix) + source)
            if self.settled(new, z):  # LOOKS-HOT
                return new
            z, k = new, k + 1
        return z

    @torch.no_grad()
    def forward(self, counts):
        return self.read_out(self.solve(self.inject(counts))).squeeze(-1)


class TrafficEquilibriumNaive(TrafficEquilibrium):
    def settled(self, new, old):
        return False


def build(cls=TrafficEquilibrium):
    torch.manual_seed(0)
    return cls(), (torch.rand(8, 160, 6),)


def build_naive_fix():
    return build(TrafficEquilibriumNaive)
