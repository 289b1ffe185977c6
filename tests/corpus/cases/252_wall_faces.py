"""C252 negative (after fluid and heat surrogates): a masked write into a view that must reach the field behind it."""
import torch
from torch import nn

expected = {
    "case": "C252",
    "polarity": "negative",
    "kind": "bool_mask_assign",
    "hot_lines": [25],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "face is a view of field, made in the caller: where() into a new tensor leaves the walls of the field as they were",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.26,
    "speedup_cpu": None,
}


class WallFaces(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.smooth = nn.Conv2d(channels, channels, 3, padding=1)

    def impose(self, face, inflow, solid):
        face[solid] = inflow[solid]  # LOOKS-HOT
        return face.mean(dim=-1)

    def forward(self, field, inflow, solid):
        field = field.clone()
        west, east = field.select(-1, 0), field.select(-1, field.size(-1) - 1)
        flux = [self.impose(face, inflow, solid) for face in (west, east)]
        return self.smooth(field), torch.stack(flux, dim=-1)


class WallFacesNaive(WallFaces):
    def impose(self, face, inflow, solid):
        face = torch.where(solid, inflow, face)
        return face.mean(dim=-1)


def build():
    torch.manual_seed(0)
    wall = (4, 4, 96)
    return WallFaces(), (torch.randn(*wall, 12), torch.randn(wall), torch.rand(wall) < 0.5)


def build_naive_fix():
    slow, inputs = build()
    naive = WallFacesNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
