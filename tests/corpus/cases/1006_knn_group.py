"""C1006: neighbours of a point cloud gathered cloud by cloud with index_select."""
import torch
from torch import nn

expected = {
    "case": "C1006",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [24, 25],
    "fix": "gather_with_expanded_index",
    "auto_fix_safe": True,
    "why": "clouds are independent and every sample takes the same number of neighbours, so one gather along dim 2 is equal",
    "hot_share_cpu": 0.89,
    "speedup_cpu": 8.05,
}


def group_points(feats, knn):
    """feats (B, C, N), knn (B, N, K) -> (B, C, N, K)"""
    B, C, N = feats.shape
    K = knn.shape[-1]
    grouped = feats.new_zeros((B, C, N, K))
    for b in range(B):
        picked = torch.index_select(feats[b], 1, knn[b].reshape(-1))  # HOT
        grouped[b] = picked.reshape(C, N, K)  # HOT
    return grouped


def group_points_fast(feats, knn):
    B, C, N = feats.shape
    flat = knn.reshape(B, 1, -1).expand(-1, C, -1)
    return feats.gather(2, flat).view(B, C, N, -1)


class EdgeBlock(nn.Module):
    group = staticmethod(group_points)

    def __init__(self, width=4):
        super().__init__()
        self.lift = nn.Conv1d(3, width, kernel_size=1)

    def forward(self, xyz, knn):
        feats = self.lift(xyz)
        near = self.group(feats, knn)
        return (near - feats.unsqueeze(-1)).amax(dim=-1)


class EdgeBlockFixed(EdgeBlock):
    group = staticmethod(group_points_fast)


def build():
    torch.manual_seed(0)
    return EdgeBlock(), (torch.randn(128, 3, 20), torch.randint(0, 20, (128, 20, 4)))


def build_fixed():
    slow, inputs = build()
    fast = EdgeBlockFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
