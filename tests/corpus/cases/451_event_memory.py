"""C451 negative (after temporal graph networks with node memory): lookups in a memory that each event rewrites for its two nodes."""
import torch
from torch import nn
import torch.nn.functional as F

expected = {
    "case": "C451",
    "polarity": "negative",
    "kind": "embedding_loop",
    "hot_lines": [35, 36, 37],
    "must_not": "flag the lookups as batchable or offer a fix that reads all rows before the loop",
    "auto_fix_safe": False,
    "why": "later events read rows that earlier events wrote in place; the table is not the one of the start of the loop",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.30,
    "speedup_cpu": None,
}


class EventMemory(nn.Module):
    def __init__(self, nodes=60, dim=20, edge=6):
        super().__init__()
        self.start = nn.Embedding(nodes, dim)
        self.update = nn.Linear(3 * dim + edge, 2 * dim)
        self.score = nn.Linear(2 * dim, 1)

    def write(self, table, node, value):
        table.index_copy_(0, node, value)

    @torch.no_grad()
    def forward(self, src, dst, friends, edge):
        table = self.start.weight.clone()
        scores = []
        for k in range(src.numel()):
            a = F.embedding(src[k : k + 1], table)  # LOOKS-HOT
            b = F.embedding(dst[k : k + 1], table)  # LOOKS-HOT
            near = F.embedding(friends[k], table).mean(dim=0, keepdim=True)  # LOOKS-HOT
            pair = torch.cat((a, b), dim=1)
            scores.append(self.score(pair))
            new = torch.tanh(self.update(torch.cat((pair, near, edge[k : k + 1]), dim=1)))
            self.write(table, src[k : k + 1], new[:, : a.size(1)])
            self.write(table, dst[k : k + 1], new[:, a.size(1) :])
        return torch.cat(scores).squeeze(1)


class EventMemoryNaive(EventMemory):
    @torch.no_grad()
    def forward(self, src, dst, friends, edge):
        table = self.start.weight
        return self.score(torch.cat((F.embedding(src, table), F.embedding(dst, table)), dim=1)).squeeze(1)


def build():
    torch.manual_seed(0)
    src, dst = torch.randint(0, 30, (90,)), torch.randint(30, 60, (90,))
    return EventMemory(), (src, dst, torch.randint(0, 60, (90, 10)), torch.randn(90, 6))


def build_naive_fix():
    slow, inputs = build()
    naive = EventMemoryNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
