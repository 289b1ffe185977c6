"""C108 (after OpenPCDet#883): neighbour features of a point cloud gathered cloud by cloud into a preallocated tensor."""
import torch
from torch import nn

expected = {
    "case": "C108",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [27],
    "fix": "batched_advanced_index",
    "auto_fix_safe": True,
    "why": "every cloud has the same number of points and neighbours; feats[arange(B)[:, None, None], nbrs] picks the same rows",
    "hot_share_cpu": 0.94,
    "speedup_cpu": 16.86,
}


class NeighbourMax(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.lift = nn.Linear(3, width)

    def _group(self, feats, nbrs):
        clouds, centres, k = nbrs.shape
        grouped = feats.new_empty(clouds, centres, k, feats.size(-1))
        for b, (cloud, idx) in enumerate(zip(feats, nbrs)):
            grouped[b] = cloud.index_select(0, idx.reshape(-1)).view(centres, k, -1)  # HOT
        return grouped

    def forward(self, points, nbrs):
        return self._group(self.lift(points), nbrs).amax(dim=2)


class NeighbourMaxFixed(NeighbourMax):
    def _group(self, feats, nbrs):
        which = torch.arange(nbrs.size(0), device=nbrs.device)
        return feats[which[:, None, None], nbrs]


def build():
    torch.manual_seed(18)
    return NeighbourMax(), (torch.randn(64, 30, 3), torch.randint(30, (64, 6, 4)))


def build_fixed():
    slow, inputs = build()
    fast = NeighbourMaxFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
