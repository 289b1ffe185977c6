"""C1055 negative: one projector with BatchNorm applied to each view on its own."""
import torch
from torch import nn

expected = {
    "case": "C1055",
    "polarity": "negative",
    "kind": "head_loop",
    "hot_lines": [25],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "in training every call has its own batch statistics and moves the running averages once; one flattened call mixes the views",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.98,
    "speedup_cpu": None,
}


class MultiView(nn.Module):
    def __init__(self, width=24, out=16):
        super().__init__()
        self.projector = nn.Sequential(nn.Linear(width, out), nn.BatchNorm1d(out), nn.ReLU())

    def forward(self, crops):
        views = [self.projector(view) for view in crops.unbind(dim=1)]  # LOOKS-HOT
        return torch.stack(views, dim=1)


class MultiViewNaive(MultiView):
    def forward(self, crops):
        b, n = crops.shape[:2]
        return self.projector(crops.flatten(0, 1)).view(b, n, -1)


def build():
    torch.manual_seed(0)
    level = torch.linspace(-1, 1, 40)[None, :, None]
    return MultiView().train(), (torch.randn(16, 40, 24) + level,)


def build_naive_fix():
    slow, inputs = build()
    naive = MultiViewNaive().train()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
