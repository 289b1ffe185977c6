"""C953 negative (after AdhemarDeSenneville/Soft-dtw-in-Pytorch and keonlee9420/Soft-DTW-Loss): a double loop over pairs of frames."""
import torch
from torch import nn

expected = {
    "case": "C953",
    "polarity": "negative",
    "kind": "pairwise_loop",
    "hot_lines": [35, 36],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "cell (i, j) reads three cells written just before; only an anti-diagonal sweep would be legal, not a broadcast over pairs",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.75,
    "speedup_cpu": None,
}


def softmin(vals, gamma):
    return -gamma * torch.logsumexp(-vals / gamma, dim=0)


class SoftDTW(nn.Module):
    def __init__(self, gamma=0.5, width=8):
        super().__init__()
        self.gamma = gamma
        self.embed = nn.Linear(width, width)

    def accumulate(self, D):
        n, m = D.shape
        R = [[D.new_tensor(1e8) for _ in range(m + 1)] for _ in range(n + 1)]
        R[0][0] = D.new_tensor(0.0)
        for i in range(1, n + 1):
            for j in range(1, m + 1):
                prev = torch.stack([R[i - 1][j - 1], R[i - 1][j], R[i][j - 1]])  # LOOKS-HOT
                R[i][j] = D[i - 1, j - 1] + softmin(prev, self.gamma)  # LOOKS-HOT
        return R[n][m]

    def forward(self, x, y):
        D = torch.cdist(self.embed(x), self.embed(y)).square()
        return self.accumulate(D)


class SoftDTWNaive(SoftDTW):
    def accumulate(self, D):
        P = nn.functional.pad(D, (1, 0, 1, 0), value=1e8)
        prev = torch.stack([P[:-1, :-1], P[:-1, 1:], P[1:, :-1]])
        return (D + softmin(prev, self.gamma))[-1, -1]


def build():
    torch.manual_seed(0)
    return SoftDTW(), (torch.randn(16, 8), torch.randn(20, 8))


def build_naive_fix():
    slow, inputs = build()
    naive = SoftDTWNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
