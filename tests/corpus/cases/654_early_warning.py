"""C654 negative (after early warning models on intensive care records): latest risk profile, with a smoothness penalty over the stay."""
import torch
from torch import nn

expected = {
    "case": "C654",
    "polarity": "negative",
    "kind": "linear_then_slice",
    "hot_lines": [33, 35],
    "must_not": "offer a safe fix that slices before the head",
    "auto_fix_safe": False,
    "why": "the training loop calls flicker(), which reads the logits of all hours from the attribute; with the slice first the outputs of forward stay equal, and the penalty turns into the mean of nothing",
    "naive_fix_outcome": "faster",
    "hot_share_cpu": 0.81,
    "speedup_cpu": 6.25,
}


class EarlyWarning(nn.Module):
    def __init__(self, signals=12, width=32, codes=900):
        super().__init__()
        self.lift = nn.Linear(signals, width)
        self.decay = nn.Parameter(torch.rand(width))
        self.profile = nn.Linear(width, codes)
        self.hourly = None

    def smooth(self, stay):
        age = torch.arange(stay.size(1), device=stay.device).unsqueeze(-1)
        rate = torch.exp(-self.decay)
        return (torch.tanh(self.lift(stay)) * rate ** age.flip(0)).cumsum(dim=1)

    def forward(self, stay):
        logits = self.profile(self.smooth(stay))  # LOOKS-HOT
        self.hourly = logits
        return logits[:, -1]  # LOOKS-HOT

    def flicker(self):
        """Added to the loss after each forward."""
        return (self.hourly[:, 1:] - self.hourly[:, :-1]).square().mean()


class EarlyWarningNaive(EarlyWarning):
    def forward(self, stay):
        logits = self.profile(self.smooth(stay)[:, -1:])
        self.hourly = logits
        return logits[:, -1]


def build():
    torch.manual_seed(0)
    return EarlyWarning(), (torch.randn(16, 144, 12),)


def build_naive_fix():
    slow, inputs = build()
    naive = EarlyWarningNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
