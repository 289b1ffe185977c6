"""C153 negative (after memory-bank updates, RepDistiller#37, and the repeated-index trap of nn-zero-to-hero#46): samples may share a slot."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C153",
    "polarity": "negative",
    "kind": "batch_loop_gather",
    "hot_lines": [29, 30],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "when two samples name one slot the second reads the row the first wrote; an indexed assignment keeps only one of the two updates",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.86,
    "speedup_cpu": None,
}


class SlotMemory(nn.Module):
    def __init__(self, slots=12, width=16, keep=0.7):
        super().__init__()
        self.register_buffer("memory", F.normalize(torch.randn(slots, width), dim=1))
        self.key = nn.Linear(width, width)
        self.keep = keep

    def write(self, memory, slots, keys):
        for slot, key in zip(slots.tolist(), keys):
            fresh = self.keep * memory[slot] + (1 - self.keep) * key  # LOOKS-HOT
            memory[slot] = F.normalize(fresh, dim=0)  # LOOKS-HOT
        return memory

    def forward(self, x, slots):
        keys = self.key(x)
        return keys @ self.write(self.memory.clone(), slots, keys).t()


class SlotMemoryNaive(SlotMemory):
    def write(self, memory, slots, keys):
        fresh = self.keep * memory[slots] + (1 - self.keep) * keys
        memory[slots] = F.normalize(fresh, dim=1)
        return memory


def build():
    torch.manual_seed(28)
    return SlotMemory(), (torch.randn(40, 16), torch.randint(12, (40,)))


def build_naive_fix():
    slow, inputs = build()
    naive = SlotMemoryNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
