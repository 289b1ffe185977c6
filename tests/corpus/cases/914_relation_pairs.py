"""C914 (after kimhc6028/relational-networks model.py, RN): both halves of every object pair are repeated before the cat."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C914",
    "polarity": "positive",
    "kind": "repeat_to_expand",
    "hot_lines": [35, 38],
    "fix": "expand",
    "auto_fix_safe": True,
    "why": "the repeated dims have size 1 and torch.cat copies its inputs anyway; nothing is written in place",
    "hot_share_cpu": 0.15,
    "speedup_cpu": 1.31,
}


class RN(nn.Module):
    def __init__(self, feat=26, qst=11, hidden=8):
        super().__init__()
        self.g_fc1 = nn.Linear(2 * feat + qst, hidden)
        self.g_fc2 = nn.Linear(hidden, hidden)
        self.f_fc1 = nn.Linear(hidden, 10)

    def pairs(self, x_flat, qst):
        n = x_flat.size(1)
        # add question everywhere
        qst = torch.unsqueeze(qst, 1)
        qst = qst.repeat(1, n, 1)
        qst = torch.unsqueeze(qst, 2)

        # cast all pairs against each other
        x_i = torch.unsqueeze(x_flat, 1)  # (B x 1 x n x d)
        x_i = x_i.repeat(1, n, 1, 1)  # HOT
        x_j = torch.unsqueeze(x_flat, 2)  # (B x n x 1 x d)
        x_j = torch.cat([x_j, qst], 3)
        x_j = x_j.repeat(1, 1, n, 1)  # HOT
        return torch.cat([x_i, x_j], 3)

    def forward(self, x_flat, qst):
        b, n, _ = x_flat.size()
        x_ = self.pairs(x_flat, qst).view(b, n * n, -1)
        x_ = F.relu(self.g_fc1(x_))
        x_ = F.relu(self.g_fc2(x_))
        return F.log_softmax(self.f_fc1(x_.sum(1)), dim=1)


class RNFixed(RN):
    def pairs(self, x_flat, qst):
        n = x_flat.size(1)
        qst = qst[:, None, None].expand(-1, n, 1, -1)
        x_i = x_flat.unsqueeze(1).expand(-1, n, -1, -1)
        x_j = torch.cat([x_flat.unsqueeze(2), qst], 3).expand(-1, -1, n, -1)
        return torch.cat([x_i, x_j], 3)


def build():
    torch.manual_seed(0)
    return RN(), (torch.randn(8, 64, 26), torch.randn(8, 11))


def build_fixed():
    slow, inputs = build()
    fast = RNFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
