"""C351 negative (after streaming synthesis models): cat in a loop on a window of constant length that the next step reads."""
import torch
from torch import nn

expected = {
    "case": "C351",
    "polarity": "negative",
    "kind": "cat_in_loop",
    "hot_lines": [33],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the window never grows, and each round reads the sample that the round before pushed into it",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.28,
    "speedup_cpu": None,
}


class RollingWindow(nn.Module):
    def __init__(self, width=16, span=12):
        super().__init__()
        self.span = span
        self.read = nn.Linear(width * span, width)

    def predict(self, window, frame):
        return torch.tanh(self.read(window.flatten(1))) + 0.1 * frame

    def forward(self, frames):
        window = frames.new_zeros(frames.size(1), self.span, frames.size(2))
        spoken = []
        for frame in frames.unbind(0):
            sample = self.predict(window, frame)
            window = torch.cat([window[:, 1:], sample[:, None]], dim=1)  # LOOKS-HOT
            spoken.append(sample)
        return torch.stack(spoken)


class RollingWindowNaive(RollingWindow):
    def forward(self, frames):
        window = frames.new_zeros(frames.size(1), self.span, frames.size(2))
        pieces = [window[:, 1:]]
        for frame in frames.unbind(0):
            pieces.append(self.predict(window, frame)[:, None])
        window = torch.cat(pieces, dim=1)
        return window[:, self.span - 1 :].transpose(0, 1)


def build():
    torch.manual_seed(0)
    return RollingWindow(), (torch.randn(60, 8, 16),)


def build_naive_fix():
    slow, inputs = build()
    naive = RollingWindowNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
