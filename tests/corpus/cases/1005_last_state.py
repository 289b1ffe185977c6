"""C1005: the last valid state picked sample by sample with enumerate(lengths)."""
import torch
import torch.nn as nn

expected = {
    "case": "C1005",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [25],
    "fix": "advanced_index_with_arange",
    "auto_fix_safe": True,
    "why": "states[arange(B), lengths - 1] picks the same rows, also for length 0 (index -1); each n was also a hidden host sync on a GPU",
    "hot_share_cpu": 0.81,
    "speedup_cpu": 3.06,
}


class ReviewRater(nn.Module):
    def __init__(self, width=8, hidden=12):
        super(ReviewRater, self).__init__()
        self.rnn = nn.GRU(width, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 5)

    def pick(self, states, lengths):
        return torch.stack([states[i, n - 1] for i, n in enumerate(lengths)], dim=0)  # HOT

    def forward(self, x, lengths):
        states, _ = self.rnn(x)
        return self.out(self.pick(states, lengths))


class ReviewRaterFixed(ReviewRater):
    def pick(self, states, lengths):
        rows = torch.arange(lengths.size(0), device=states.device)
        return states[rows, lengths - 1]


def build():
    torch.manual_seed(0)
    return ReviewRater(), (torch.randn(256, 10, 8), torch.randint(1, 11, (256,)))


def build_fixed():
    slow, inputs = build()
    fast = ReviewRaterFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
