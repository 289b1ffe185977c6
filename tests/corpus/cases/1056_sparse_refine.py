"""C1056 negative: a boolean index picks the few uncertain cells so that a costly net sees only those."""
import torch
from torch import nn

expected = {
    "case": "C1056",
    "polarity": "negative",
    "kind": "bool_mask_assign",
    "hot_lines": [29],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the mask is sparse and saves work: where() needs the refined value of every cell, about fifty times as much matmul",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.59,
    "speedup_cpu": 0.07,
}


class SparseRefine(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.coarse = nn.Linear(width, 1)
        self.refine = nn.Sequential(nn.Linear(width, 256), nn.ReLU(), nn.Linear(256, 1))

    def forward(self, cells):
        logit = self.coarse(cells)[..., 0]
        unsure = logit.detach().abs() < 0.02
        out = logit.clone()
        out[unsure] = self.refine(cells[unsure]).squeeze(-1)  # LOOKS-HOT
        return out


class SparseRefineNaive(SparseRefine):
    def forward(self, cells):
        logit = self.coarse(cells)[..., 0]
        unsure = logit.detach().abs() < 0.02
        return torch.where(unsure, self.refine(cells).squeeze(-1), logit)


def build():
    torch.manual_seed(0)
    return SparseRefine(), (torch.randn(4, 8000, 32),)


def build_naive_fix():
    slow, inputs = build()
    naive = SparseRefineNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
