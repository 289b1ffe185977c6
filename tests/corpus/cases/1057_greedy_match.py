"""C1057 negative: the cheapest pair is taken and its row and column are closed."""
import torch
from torch import nn

expected = {
    "case": "C1057",
    "polarity": "negative",
    "kind": "pairwise_loop",
    "hot_lines": [31, 33, 34],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "every turn searches the matrix that the turns before have closed cells in; a minimum per row lets two tracks take one detection",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.23,
    "speedup_cpu": None,
}


class GreedyMatch(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.embed = nn.Linear(width, width)

    def cost(self, tracks, boxes):
        return torch.cdist(self.embed(tracks), self.embed(boxes)).detach()

    def forward(self, tracks, boxes):
        cost = self.cost(tracks, boxes)
        match = torch.full((len(tracks),), -1)
        for _ in range(min(cost.shape)):
            best = cost.argmin().view(1)  # LOOKS-HOT
            i, j = best // cost.shape[1], best % cost.shape[1]
            match.index_copy_(0, i, j)  # LOOKS-HOT
            cost.index_fill_(0, i, float("inf")).index_fill_(1, j, float("inf"))  # LOOKS-HOT
        return match


class GreedyMatchNaive(GreedyMatch):
    def forward(self, tracks, boxes):
        return self.cost(tracks, boxes).argmin(dim=1)


def build():
    torch.manual_seed(0)
    return GreedyMatch(), (torch.randn(60, 6), torch.randn(70, 6))


def build_naive_fix():
    slow, inputs = build()
    naive = GreedyMatchNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
