"""C215 (after torchvision#8565, LibreYOLO#544 and skeleton networks): a table of landmark pairs made into a tensor at every call."""
import torch
from torch import nn

expected = {
    "case": "C215",
    "polarity": "positive",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [26],
    "fix": "register_buffer(persistent=False)",
    "auto_fix_safe": True,
    "why": "an immutable module-level tuple of ints: a non-persistent int64 buffer follows .to(device), ignores .half() and leaves state_dict alone",
    "hot_share_cpu": 0.20,
    "speedup_cpu": 1.38,
}

PAIRS = tuple((i, (i * 11 + 5) % 68) for i in range(68) if i % 17 != 16)


class FaceEdges(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed = nn.Linear(3, width)

    def lengths(self, points):
        ends = torch.tensor(PAIRS, dtype=torch.long, device=points.device)  # HOT
        a, b = points[:, ends[:, 0]], points[:, ends[:, 1]]
        return torch.cat((a - b, (a - b).norm(dim=-1, keepdim=True)), dim=-1)

    def forward(self, still, moving):
        edges = torch.stack([self.lengths(p) for p in (still, moving)], dim=1)
        return self.embed(edges[..., :3]) * edges[..., 3:]


class FaceEdgesFixed(FaceEdges):
    def __init__(self, width=8):
        super().__init__(width)
        self.register_buffer("ends", torch.tensor(PAIRS, dtype=torch.long), persistent=False)

    def lengths(self, points):
        a, b = points[:, self.ends[:, 0]], points[:, self.ends[:, 1]]
        return torch.cat((a - b, (a - b).norm(dim=-1, keepdim=True)), dim=-1)


def build():
    torch.manual_seed(0)
    return FaceEdges(), (torch.randn(2, 68, 3), torch.randn(2, 68, 3))


def build_fixed():
    slow, inputs = build()
    fast = FaceEdgesFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
