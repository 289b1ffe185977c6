"""C952 negative (after xingyizhou/CenterTrack tracker.py greedy_assignment): each match masks a column that later rows read."""
import torch
from torch import nn

expected = {
    "case": "C952",
    "polarity": "negative",
    "kind": "mask_loop",
    "hot_lines": [31, 32],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the argmin of row i must not see tracks taken by rows before it; a row-wise argmin over all rows assigns a track twice",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.69,
    "speedup_cpu": None,
}


class GreedyTracker(nn.Module):
    def __init__(self, width=24, gate=60.0):
        super().__init__()
        self.reid = nn.Linear(width, width)
        self.gate = gate

    def greedy_assignment(self, dist):
        dist = dist.clone()
        rows = torch.arange(dist.shape[0], device=dist.device)
        matched = torch.full_like(rows, -1)
        for i in range(dist.shape[0]):
            j = dist[i].argmin()
            matched[i] = torch.where(dist[i, j] < 1e16, j, matched[i])  # LOOKS-HOT
            dist[:, j] = 1e18  # LOOKS-HOT
        return matched

    @torch.no_grad()
    def forward(self, dets, tracks):
        dist = torch.cdist(self.reid(dets), self.reid(tracks)).square()
        dist = dist.masked_fill(dist > self.gate, 1e18)
        return self.greedy_assignment(dist)


class GreedyTrackerNaive(GreedyTracker):
    def greedy_assignment(self, dist):
        best, j = dist.min(dim=1)
        return torch.where(best < 1e16, j, torch.full_like(j, -1))


def build():
    torch.manual_seed(0)
    return GreedyTracker(), (torch.randn(40, 24) * 2, torch.randn(50, 24) * 2)


def build_naive_fix():
    slow, inputs = build()
    naive = GreedyTrackerNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
