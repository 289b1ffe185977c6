"""C1010: a pairwise loss summed in two nested loops with a test per pair."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1010",
    "polarity": "positive",
    "kind": "pairwise_loop",
    "hot_lines": [32, 33],
    "fix": "difference_matrix_and_mask",
    "auto_fix_safe": False,
    "why": "the test becomes a mask and the running sum one sum: equal up to rounding, but n*n memory and control flow on data go away",
    "hot_share_cpu": 0.83,
    "speedup_cpu": 201.61,
}


class RankLoss(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, docs, grade):
        s = self.score(docs).squeeze(1)
        n = s.numel()
        if n < 2:
            return s.sum() * 0
        loss, pairs = s.new_zeros(()), 0
        for i in range(n):
            for j in range(n):
                if grade[i] > grade[j]:  # HOT
                    loss = loss + F.softplus(s[j] - s[i])  # HOT
                    pairs += 1
        return loss / max(pairs, 1)


class RankLossFixed(RankLoss):
    def forward(self, docs, grade):
        s = self.score(docs).squeeze(1)
        if s.numel() < 2:
            return s.sum() * 0
        better = grade[:, None] > grade[None, :]
        each = F.softplus(s[None, :] - s[:, None])
        return torch.where(better, each, 0.0).sum() / better.sum().clamp(min=1)


def build():
    torch.manual_seed(0)
    return RankLoss(), (torch.randn(36, 10), torch.randint(0, 4, (36,)))


def build_fixed():
    slow, inputs = build()
    fast = RankLossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
