"""C406 (after PointNet++-style grouping in research repositories): neighbours are read cloud by cloud and centre by centre."""
import torch
from torch import nn

expected = {
    "case": "C406",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [22],
    "fix": "batched_index",
    "auto_fix_safe": True,
    "why": "every (cloud, centre) reads its own rows with a (B, S, K) index of fixed size; one index with a batch arange is the same",
    "hot_share_cpu": 0.74,
    "speedup_cpu": 8.04,
}


def group(points, neighbours, centres):
    """(B, N, C), (B, S, K), (B, S, C) -> local coordinates (B, S, K, C)."""
    clouds = []
    for cloud, rows, origin in zip(points, neighbours, centres):
        patches = [cloud[r, :] - o for r, o in zip(rows, origin)]  # HOT
        clouds.append(torch.stack(patches))
    return torch.stack(clouds)


def group_batched(points, neighbours, centres):
    batch = torch.arange(points.size(0), device=points.device)[:, None, None]
    return points[batch, neighbours] - centres[:, :, None]


class SetAbstraction(nn.Module):
    grouping = staticmethod(group)

    def __init__(self, n_centres=40, k=8, widths=(3, 8, 16)):
        super().__init__()
        self.n_centres, self.k = n_centres, k
        self.mlp = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, xyz):
        centres = xyz[:, : self.n_centres]
        near = torch.cdist(centres, xyz).topk(self.k, dim=-1, largest=False).indices
        local = self.grouping(xyz, near, centres)
        for layer in self.mlp:
            local = torch.relu(layer(local))
        return local.amax(dim=2)


class SetAbstractionFixed(SetAbstraction):
    grouping = staticmethod(group_batched)


def build():
    torch.manual_seed(0)
    return SetAbstraction(), (torch.randn(6, 96, 3),)


def build_fixed():
    slow, inputs = build()
    fast = SetAbstractionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
