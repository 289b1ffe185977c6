"""C354 negative (after fast-weight and test-time-training layers): the input projection learns between two time steps."""
import torch
from torch import nn

expected = {
    "case": "C354",
    "polarity": "negative",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [34],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "imprint() writes into the projection's weight after each step, so the product is not invariant in the loop",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.25,
    "speedup_cpu": None,
}


class PlasticReader(nn.Module):
    def __init__(self, width=192, state=32, rate=0.01):
        super().__init__()
        self.rate = rate
        self.syn = nn.Linear(width, state, bias=False)
        self.rec = nn.Linear(state, state)

    def imprint(self, x, y):
        self.syn.weight.mul_(1.0 - self.rate).addmm_(y.t(), x, alpha=self.rate / x.size(0))

    @torch.no_grad()
    def forward(self, stream):
        h = stream.new_zeros(stream.size(0), self.rec.in_features)
        trace = []
        for x_t in stream.unbind(dim=1):
            drive = self.syn(x_t)  # LOOKS-HOT
            h = torch.tanh(drive + self.rec(h))
            self.imprint(x_t, h)
            trace.append(h)
        return torch.stack(trace, dim=1)


class PlasticReaderNaive(PlasticReader):
    @torch.no_grad()
    def forward(self, stream):
        h = stream.new_zeros(stream.size(0), self.rec.in_features)
        trace = []
        for x_t, drive in zip(stream.unbind(dim=1), self.syn(stream).unbind(dim=1)):
            h = torch.tanh(drive + self.rec(h))
            self.imprint(x_t, h)
            trace.append(h)
        return torch.stack(trace, dim=1)


def build():
    torch.manual_seed(0)
    return PlasticReader(), (torch.randn(4, 60, 192),)


def build_naive_fix():
    slow, inputs = build()
    naive = PlasticReaderNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
