"""C611 (after genomic coverage models with flanking context): predict tracks along a window, keep the centre bins."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C611",
    "polarity": "positive",
    "kind": "linear_then_slice",
    "hot_lines": [35, 36],
    "fix": "slice_before_head",
    "auto_fix_safe": True,
    "why": "norm, linear and softplus work on every bin by itself, and only the centre bins are used",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 3.60,
}


class TrackModel(nn.Module):
    def __init__(self, width=48, tracks=1200, bins=24):
        super().__init__()
        self.bins = bins
        self.letters = nn.Embedding(5, width)
        self.mix = nn.Conv1d(width, width, 5, padding=2, groups=width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, tracks)

    def trunk(self, seq):
        h = self.letters(seq).transpose(1, 2)
        h = F.avg_pool1d(F.gelu(self.mix(h)), 4)
        return h.transpose(1, 2)

    def forward(self, seq):
        h = self.trunk(seq)
        coverage = self.head(self.norm(h))  # HOT
        coverage = F.softplus(coverage)  # HOT
        flank = (coverage.size(1) - self.bins) // 2
        return coverage.narrow(1, flank, self.bins)


class TrackModelFixed(TrackModel):
    def forward(self, seq):
        h = self.trunk(seq)
        flank = (h.size(1) - self.bins) // 2
        return F.softplus(self.head(self.norm(h.narrow(1, flank, self.bins))))


def build():
    torch.manual_seed(0)
    return TrackModel(), (torch.randint(5, (2, 1280)),)


def build_fixed():
    slow, inputs = build()
    fast = TrackModelFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
