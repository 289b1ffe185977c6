"""C551 negative (after condition monitoring of machines): outliers of a sensor log are repaired before the level is taken."""
import torch
from torch import nn

expected = {
    "case": "C551",
    "polarity": "negative",
    "kind": "bool_mask_assign",
    "hot_lines": [30],
    "must_not": "offer a safe fix that rebinds the target to a new tensor",
    "auto_fix_safe": False,
    "why": "the log belongs to the caller, which reads the repaired values after the call; a where() bound to the local name leaves them",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.48,
    "speedup_cpu": None,
}


class SpikeRepair(nn.Module):
    """Replaces outliers by the channel mean, reports their share per channel."""

    def __init__(self, limit=1.2):
        super().__init__()
        self.limit = limit

    def forward(self, log):
        center = log.mean(dim=1, keepdim=True)
        spread = log.std(dim=1, keepdim=True)
        bad = (log - center).abs() > self.limit * spread
        log[bad] = center.expand_as(log)[bad]  # LOOKS-HOT
        return bad.double().mean(dim=1)


class SpikeRepairNaive(SpikeRepair):
    def forward(self, log):
        center = log.mean(dim=1, keepdim=True)
        spread = log.std(dim=1, keepdim=True)
        bad = (log - center).abs() > self.limit * spread
        log = torch.where(bad, center, log)
        return bad.double().mean(dim=1)


class BearingHealth(nn.Module):
    def __init__(self, channels=6, repair=SpikeRepair):
        super().__init__()
        self.repair = repair()
        self.score = nn.Linear(2 * channels, 1).double()

    def forward(self, raw):
        log = raw - raw[:, :1]
        share = self.repair(log)
        energy = log.square().mean(dim=1)
        return self.score(torch.cat([energy, share], dim=-1))


def build():
    torch.manual_seed(0)
    return BearingHealth(), (torch.randn(4, 4096, 6, dtype=torch.float64),)


def build_naive_fix():
    slow, inputs = build()
    naive = BearingHealth(repair=SpikeRepairNaive)
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
