"""C102 (after DLRM-style click models, facebookresearch/dlrm#171): a list of id columns, each looked up in the same hashed table."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C102",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [26],
    "fix": "stack_ids_then_one_lookup",
    "auto_fix_safe": True,
    "why": "all columns have one shape and read one table; stacking the ids gives the same rows in the same order and the same summed gradient",
    "hot_share_cpu": 0.75,
    "speedup_cpu": 4.08,
}


class HashedClicks(nn.Module):
    def __init__(self, buckets=5000, dim=8, columns=60):
        super().__init__()
        self.hashed = nn.Parameter(torch.randn(buckets, dim) * 0.05)
        self.tower = nn.Sequential(nn.Linear(columns * dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def _wide(self, columns):
        vecs = [F.embedding(ids, self.hashed, padding_idx=0) for ids in columns]  # HOT
        return torch.cat(vecs, dim=-1)

    def forward(self, columns):
        return self.tower(self._wide(columns)).squeeze(-1)


class HashedClicksFixed(HashedClicks):
    def _wide(self, columns):
        ids = torch.stack(columns, dim=-1)
        return F.embedding(ids, self.hashed, padding_idx=0).flatten(-2)


def build():
    torch.manual_seed(12)
    return HashedClicks(), ([torch.randint(5000, (24,)) for _ in range(60)],)


def build_fixed():
    slow, inputs = build()
    fast = HashedClicksFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
