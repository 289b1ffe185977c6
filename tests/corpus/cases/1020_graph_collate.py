"""C1020: nodes and edges of a batch grown with vstack and hstack."""
from typing import NamedTuple

import torch
from torch import nn

expected = {
    "case": "C1020",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [34, 35],
    "fix": "append_then_cat_once",
    "auto_fix_safe": True,
    "why": "x and edges are never read inside the loop (the offset counts sizes), so two lists and two joins after it are equal",
    "hot_share_cpu": 0.80,
    "speedup_cpu": 5.29,
}


class Batch(NamedTuple):
    x: torch.Tensor
    edges: torch.Tensor


class GraphSum(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.lin = nn.Linear(width, 8)

    def collate(self, graphs):
        x, edges, offset = torch.empty(0, self.width), torch.empty(2, 0, dtype=torch.long), 0
        for nodes, links in graphs:
            x = torch.vstack([x, nodes])  # HOT
            edges = torch.hstack([edges, links + offset])  # HOT
            offset += nodes.shape[0]
        return Batch(x=x, edges=edges)

    def forward(self, graphs):
        x, (src, dst) = self.collate(graphs)
        h = self.lin(x).relu()
        return torch.zeros_like(h).index_add(0, dst, h[src])


class GraphSumFixed(GraphSum):
    def collate(self, graphs):
        x, edges, offset = [torch.empty(0, self.width)], [torch.empty(2, 0, dtype=torch.long)], 0
        for nodes, links in graphs:
            x.append(nodes)
            edges.append(links + offset)
            offset += nodes.shape[0]
        return Batch(x=torch.vstack(x), edges=torch.hstack(edges))


def build():
    torch.manual_seed(0)
    sizes = torch.randint(8, 20, (160,)).tolist()
    return GraphSum(), ([(torch.randn(n, 24), torch.randint(0, n, (2, 2 * n))) for n in sizes],)


def build_fixed():
    slow, inputs = build()
    fast = GraphSumFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
