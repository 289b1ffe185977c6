"""C554 negative (after memory-augmented networks for streams): chunks read a slot memory, then leave their trace in it."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C554",
    "polarity": "negative",
    "kind": "repeated_invariant_compute",
    "hot_lines": [28, 38],
    "must_not": "flag the links as invariant in the loop, or offer a fix that hoists them",
    "auto_fix_safe": False,
    "why": "the bank is never rebound, but a helper writes into it after each chunk, so the links differ from chunk to chunk",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.64,
    "speedup_cpu": None,
}


class SlotMemory(nn.Module):
    def __init__(self, slots=224, width=16, hop=8, rate=0.5):
        super().__init__()
        self.hop, self.rate = hop, rate
        self.register_buffer("prototypes", torch.randn(slots, width))
        self.out = nn.Linear(width, width)

    def links(self, bank):
        return F.softmax(bank @ bank.t() / bank.size(1) ** 0.5, dim=-1)  # LOOKS-HOT

    def imprint(self, bank, match, chunk):
        bank.index_add_(0, match.argmax(dim=-1), chunk, alpha=self.rate)

    def forward(self, stream):
        bank = self.prototypes.clone()
        reads = []
        for chunk in stream.split(self.hop):
            match = (chunk @ bank.t()).softmax(dim=-1)
            links = self.links(bank)  # LOOKS-HOT
            reads.append(match @ links @ bank)
            self.imprint(bank, match, chunk)
        return self.out(torch.cat(reads))


class SlotMemoryNaive(SlotMemory):
    def forward(self, stream):
        bank = self.prototypes.clone()
        reads = []
        links = self.links(bank)
        for chunk in stream.split(self.hop):
            match = (chunk @ bank.t()).softmax(dim=-1)
            reads.append(match @ links @ bank)
            self.imprint(bank, match, chunk)
        return self.out(torch.cat(reads))


def build():
    torch.manual_seed(0)
    return SlotMemory(), (torch.randn(128, 16),)


def build_naive_fix():
    slow, inputs = build()
    naive = SlotMemoryNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
