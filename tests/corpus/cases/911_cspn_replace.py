"""C911 (after pytorch/xla#4248, in the setting of XinJCheng/CSPN cspn.py): measured depth put back by mask after every propagation step."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C911",
    "polarity": "positive",
    "kind": "bool_mask_assign",
    "hot_lines": [39],
    "fix": "torch.where",
    "auto_fix_safe": True,
    "why": "depth is the fresh result of the propagation step and both sides carry the same full-size mask: where(valid, sparse, depth)",
    "hot_share_cpu": 0.39,
    "speedup_cpu": 1.50,
}


class AffinityPropagate(nn.Module):
    def __init__(self, prop_time=8):
        super().__init__()
        self.prop_time = prop_time
        self.guide = nn.Conv2d(4, 1, kernel_size=1)

    def affinity_normalization(self, guidance):
        return torch.sigmoid(self.guide(guidance))

    def propagate_once(self, gate, depth):
        # weighted mean of the neighbourhood and the pixel itself
        around = F.avg_pool2d(depth, 3, stride=1, padding=1)
        return gate * around + (1.0 - gate) * depth

    def forward(self, guidance, blur_depth, sparse_depth):
        gate = self.affinity_normalization(guidance)
        valid = sparse_depth > 0
        depth = blur_depth
        for _ in range(self.prop_time):
            depth = self.propagate_once(gate, depth)
            depth[valid] = sparse_depth[valid]  # HOT
        return depth


class AffinityPropagateFixed(AffinityPropagate):
    def forward(self, guidance, blur_depth, sparse_depth):
        gate = self.affinity_normalization(guidance)
        valid = sparse_depth > 0
        depth = blur_depth
        for _ in range(self.prop_time):
            depth = self.propagate_once(gate, depth)
            depth = torch.where(valid, sparse_depth, depth)
        return depth


def build():
    torch.manual_seed(0)
    sparse = torch.rand(2, 1, 96, 128) * (torch.rand(2, 1, 96, 128) < 0.3)
    return AffinityPropagate(), (torch.randn(2, 4, 96, 128), torch.rand(2, 1, 96, 128), sparse)


def build_fixed():
    slow, inputs = build()
    fast = AffinityPropagateFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
