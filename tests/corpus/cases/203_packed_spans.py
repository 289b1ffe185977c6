"""C203 (after vllm-metal#263 and cudnn-frontend#554): a generator that reads both ends of every packed span with .item()."""
import torch
from torch import nn

expected = {
    "case": "C203",
    "polarity": "positive",
    "kind": "item_in_loop",
    "hot_lines": [19, 20],
    "fix": "tolist_once_before_loop",
    "auto_fix_safe": True,
    "why": "nobody writes the marks while the generator runs, so one tolist() yields the same ints: 2N reads become one",
    "hot_share_cpu": 0.24,
    "speedup_cpu": 1.35,
}


def spans_of(marks):
    for lo, hi in zip(marks[:-1], marks[1:]):  # HOT
        yield slice(lo.item(), hi.item())  # HOT


def spans_of_fixed(marks):
    marks = marks.tolist()
    for lo, hi in zip(marks[:-1], marks[1:]):
        yield slice(lo, hi)


class SpanPeak(nn.Module):
    spans = staticmethod(spans_of)

    def __init__(self, width=24):
        super().__init__()
        self.score = nn.Linear(width, 1)

    def forward(self, packed, marks):
        scores = self.score(packed).squeeze(-1)
        peaks = []
        for span in self.spans(marks):
            peaks.append(scores[span].sum())
        return torch.stack(peaks)


class SpanPeakFixed(SpanPeak):
    spans = staticmethod(spans_of_fixed)


def build():
    torch.manual_seed(0)
    lens = torch.randint(3, 12, (300,))
    marks = torch.cat((lens.new_zeros(1), lens.cumsum(0)))
    return SpanPeak(), (torch.randn(int(marks[-1]), 24), marks)


def build_fixed():
    slow, inputs = build()
    fast = SpanPeakFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
