"""C255 negative (after DGCNN/PointNet++ grouping): the channel-major map is laid out point-major once, then gathered many times."""
import torch
from torch import nn

expected = {
    "case": "C255",
    "polarity": "negative",
    "kind": "contiguous_churn",
    "hot_lines": [25],
    "must_not": "flag_or_fix",
    "auto_fix_safe": False,
    "why": "index_select would accept the strided view, but each row then costs one cache line per channel: one copy pays for many gathers",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.11,
    "speedup_cpu": 0.22,
}


class NeighbourPool(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.lift = nn.Conv1d(3, width, 1)

    def rows(self, maps):
        return maps[0].t().contiguous()  # LOOKS-HOT

    def forward(self, cloud, near):
        rows = self.rows(self.lift(cloud))
        groups = torch.index_select(rows, 0, near.reshape(-1))
        groups = groups.view(*near.shape, -1)
        return groups.amax(dim=1) - rows


class NeighbourPoolNaive(NeighbourPool):
    def rows(self, maps):
        return maps[0].t()


def build():
    torch.manual_seed(0)
    n = 4096
    return NeighbourPool(), (torch.randn(1, 3, n), torch.randint(0, n, (n, 12)))


def build_naive_fix():
    slow, inputs = build()
    naive = NeighbourPoolNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
