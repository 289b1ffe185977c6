"""D705 (kind of project: crop maps from satellite tiles, served): separable convolutions with bias, each read by a batch norm in eval."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "D705",
    "polarity": "positive",
    "kind": "conv_bias_before_bn",
    "hot_lines": [24, 26, 31, 36],
    "fix": "bias_false_and_shift_running_mean",
    "auto_fix_safe": False,
    "why": "in eval the bias has to move into running_mean, which is a change of the stored weights and not of this file alone",
    "hot_share_cpu": 0.37,
    "speedup_cpu": 0.99,
}


class CropMapper(nn.Module):
    """Ten spectral bands per pixel -> crop logits per pixel."""

    def __init__(self, bands=10, width=24, crops=5, bias=True):
        super().__init__()
        self.spatial = nn.Conv2d(bands, bands, 5, padding=2, groups=bands, bias=bias)  # HOT
        self.norm_s = nn.BatchNorm2d(bands)
        self.spectral = nn.Conv2d(bands, width, 1, bias=bias)  # HOT
        self.norm_c = nn.BatchNorm2d(width)
        self.classify = nn.Conv2d(width, crops, 1)

    def texture(self, tile):
        maps = self.spatial(tile)  # HOT
        return tile + F.gelu(self.norm_s(maps), approximate="tanh")

    def forward(self, tile):
        x = self.texture(tile)
        y = self.spectral(x)  # HOT
        y = self.norm_c(input=y)
        return self.classify(torch.clamp_min(y, 0.0))


def build():
    torch.manual_seed(0)
    model = CropMapper()
    for norm in (model.norm_s, model.norm_c):
        nn.init.normal_(norm.running_mean, std=0.1)
        nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return model.eval(), (torch.rand(4, 10, 96, 96),)


def build_fixed():
    slow, inputs = build()
    fast = CropMapper(bias=False)
    fast.load_state_dict(slow.state_dict(), strict=False)
    with torch.no_grad():
        fast.norm_s.running_mean -= slow.spatial.bias
        fast.norm_c.running_mean -= slow.spectral.bias
    return fast.eval(), inputs
