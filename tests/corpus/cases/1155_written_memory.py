"""C1155 negative: keys projected in every step from a memory that the step itself writes to."""
import torch
from torch import nn

expected = {
    "case": "C1155",
    "polarity": "negative",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "no assignment to slots is in sight, but the slice write at the end of a step changes what the next projection reads",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.20,
    "speedup_cpu": None,
}


class SlotMemory(nn.Module):
    def __init__(self, dim=48, slots=24):
        super().__init__()
        self.key = nn.Linear(dim, dim)
        self.write = nn.Linear(2 * dim, dim)
        self.init = nn.Parameter(torch.randn(slots, dim))

    @torch.no_grad()
    def forward(self, x):
        slots = self.init.expand(x.size(0), -1, -1).clone()
        reads = []
        for t in range(x.size(1)):
            keys = self.key(slots)  # LOOKS-HOT
            att = torch.einsum("bsd,bd->bs", keys, x[:, t]).softmax(dim=-1)
            read = torch.einsum("bs,bsd->bd", att, slots)
            slots[:, t % slots.size(1)] = self.write(torch.cat((read, x[:, t]), dim=-1)).tanh()
            reads.append(read)
        return torch.stack(reads, dim=1)


class SlotMemoryNaive(SlotMemory):
    @torch.no_grad()
    def forward(self, x):
        slots = self.init.expand(x.size(0), -1, -1).clone()
        keys = self.key(slots)
        reads = []
        for t in range(x.size(1)):
            att = torch.einsum("bsd,bd->bs", keys, x[:, t]).softmax(dim=-1)
            read = torch.einsum("bs,bsd->bd", att, slots)
            slots[:, t % slots.size(1)] = self.write(torch.cat((read, x[:, t]), dim=-1)).tanh()
            reads.append(read)
        return torch.stack(reads, dim=1)


def build():
    torch.manual_seed(0)
    return SlotMemory(), (torch.randn(8, 40, 48),)


def build_naive_fix():
    slow, inputs = build()
    naive = SlotMemoryNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
