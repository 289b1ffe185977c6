"""D714 (kind of project: leaderboard from pairwise votes): ratings run through the votes one by one and read each field by itself."""
import torch
from torch import nn

expected = {
    "case": "D714",
    "polarity": "positive",
    "kind": "item_in_loop",
    "hot_lines": [29, 30],
    "fix": "tolist_before_loop",
    "auto_fix_safe": True,
    "why": "the votes do not change in the loop; tolist gives the same Python numbers in one read",
    "hot_share_cpu": 0.89,
    "speedup_cpu": 14.47,
}


class Arena(nn.Module):
    """Elo ratings as prior, refined by what is known about each model."""

    def __init__(self, models=40, traits=6, k=4.0, base=1000.0):
        super().__init__()
        self.models, self.k, self.base = models, k, base
        self.refine = nn.Linear(traits + 1, 1)

    def ratings(self, votes):
        table = [self.base] * self.models
        for n, vote in enumerate(votes):
            first, second = vote[0].item(), vote[1].item()  # HOT
            won = 0.5 if vote[2].item() == 2 else float(vote[2].item() == 0)  # HOT
            expected_score = 1.0 / (1.0 + 10.0 ** ((table[second] - table[first]) / 400.0))
            step = self.k * (won - expected_score) * (2.0 if n < 100 else 1.0)
            table[first] += step
            table[second] -= step
        return table

    def forward(self, votes, traits):
        prior = torch.tensor(self.ratings(votes)).sub(self.base).div(100.0)
        return self.refine(torch.cat([prior[:, None], traits], dim=1)).squeeze(-1)


class ArenaFixed(Arena):
    def ratings(self, votes):
        table = [self.base] * self.models
        for n, (first, second, outcome) in enumerate(votes.tolist()):
            won = 0.5 if outcome == 2 else float(outcome == 0)
            expected_score = 1.0 / (1.0 + 10.0 ** ((table[second] - table[first]) / 400.0))
            step = self.k * (won - expected_score) * (2.0 if n < 100 else 1.0)
            table[first] += step
            table[second] -= step
        return table


def build(cls=Arena):
    torch.manual_seed(0)
    first = torch.randint(0, 40, (800,))
    second = (first + torch.randint(1, 40, (800,))) % 40
    return cls(), (torch.stack([first, second, torch.randint(0, 3, (800,))], dim=1), torch.randn(40, 6))


def build_fixed():
    return build(ArenaFixed)
