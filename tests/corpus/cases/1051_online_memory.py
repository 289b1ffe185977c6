"""C1051 negative: the table is written between one look-up and the next."""
import torch
from torch import nn

expected = {
    "case": "C1051",
    "polarity": "negative",
    "kind": "embedding_loop",
    "hot_lines": [30],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "each step stores into the rows that a later step looks up again; one look-up before the loop returns stale rows",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.12,
    "speedup_cpu": None,
}


class OnlineMemory(nn.Module):
    def __init__(self, slots=40, width=16, rate=0.3):
        super().__init__()
        self.init = nn.Parameter(torch.randn(slots, width))
        self.rate = rate

    def forward(self, keys, values):
        memory = self.init
        reads = []
        for t in range(keys.size(1)):
            key = keys[:, t]
            read = nn.functional.embedding(key, memory)  # LOOKS-HOT
            memory = memory.index_add(0, key, self.rate * (values[:, t] - read))
            reads.append(read)
        return torch.stack(reads, dim=1)


class OnlineMemoryNaive(OnlineMemory):
    def forward(self, keys, values):
        return nn.functional.embedding(keys, self.init)


def build():
    torch.manual_seed(0)
    return OnlineMemory(), (torch.randint(0, 40, (4, 80)), torch.randn(4, 80, 16))


def build_naive_fix():
    slow, inputs = build()
    naive = OnlineMemoryNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
