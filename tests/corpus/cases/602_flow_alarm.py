"""C602 (after anomaly scoring services built around a normalising flow): negative log likelihood of incoming sensor rows."""
import math
import torch
from torch import nn

expected = {
    "case": "C602",
    "polarity": "positive",
    "kind": "missing_no_grad",
    "hot_lines": [25, 26, 27, 28, 40, 43, 44, 47, 48],
    "fix": "no_grad or inference_mode around the scoring",
    "auto_fix_safe": True,
    "why": "the service is in eval mode and detaches everything it returns, so the graph that every call records is thrown away",
    "hot_share_cpu": 0.97,
    "speedup_cpu": 1.26,
}


class Coupling(nn.Module):
    def __init__(self, dim, hidden=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim // 2, hidden), nn.LeakyReLU(), nn.Linear(hidden, dim))

    def forward(self, z):
        keep, move = z.chunk(2, dim=-1)  # HOT
        log_s, shift = self.net(keep).chunk(2, dim=-1)  # HOT
        log_s = log_s.clamp(-2, 2)  # HOT
        return torch.cat([move * log_s.exp() + shift, keep], dim=-1), log_s.sum(-1)  # HOT


class AlarmService(nn.Module):
    """Loads a trained flow and raises alarms on rows that it finds unlikely."""

    def __init__(self, dim=8, depth=40, limit=14.0):
        super().__init__()
        self.flow = nn.ModuleList(Coupling(dim) for _ in range(depth))
        self.limit = limit
        self.eval()

    def score_rows(self, rows):  # HOT
        z, logdet = rows, rows.new_zeros(rows.size(0))
        for step in self.flow:
            z, ld = step(z)  # HOT
            logdet = logdet + ld  # HOT
        return 0.5 * (z.square().sum(-1) + z.size(-1) * math.log(2 * math.pi)) - logdet

    def forward(self, rows):  # HOT
        nll = self.score_rows(rows)  # HOT
        return nll.detach().cpu(), (nll > self.limit).nonzero().flatten()


class AlarmServiceFixed(AlarmService):
    @torch.no_grad()
    def forward(self, rows):
        return super().forward(rows)


def build():
    torch.manual_seed(0)
    return AlarmService(), (torch.randn(16, 8),)


def build_fixed():
    slow, inputs = build()
    fast = AlarmServiceFixed()
    fast.load_state_dict(slow.state_dict())
    return fast.eval(), inputs
