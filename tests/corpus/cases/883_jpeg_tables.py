"""C883 (after kornia/enhance/jpeg.py and the JPEG noise layers of HiDDeN-style watermarking): colour matrix and quantisation table per call."""
import math
import torch
import torch.nn as nn

expected = {
    "case": "C883",
    "polarity": "positive",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [35, 39],
    "fix": "register_buffer(persistent=False)",
    "auto_fix_safe": True,
    "why": "both are literals that nobody writes to; non-persistent buffers follow the module's device and leave state_dict as it was",
    "hot_share_cpu": 0.17,
    "speedup_cpu": 1.20,
}

QUANT = [
    [16, 11, 10, 16, 24, 40, 51, 61], [12, 12, 14, 19, 26, 58, 60, 55],
    [14, 13, 16, 24, 40, 57, 69, 56], [14, 17, 22, 29, 51, 87, 80, 62],
    [18, 22, 37, 56, 68, 109, 103, 77], [24, 35, 55, 64, 81, 104, 113, 92],
    [49, 64, 78, 87, 103, 121, 120, 101], [72, 92, 95, 98, 112, 100, 103, 99],
]


class JpegNoise(nn.Module):
    def __init__(self):
        super().__init__()
        n = torch.arange(8.0)
        dct = torch.cos((2 * n + 1) * n[:, None] * math.pi / 16) / 2
        dct[0] /= math.sqrt(2)
        self.register_buffer("dct", dct, persistent=False)

    def to_luma(self, rgb):
        weights = torch.tensor([0.299, 0.587, 0.114], device=rgb.device)  # HOT
        return torch.einsum("bchw,c->bhw", rgb, weights) * 255 - 128

    def round_trip(self, blocks):
        table = torch.tensor(QUANT, device=blocks.device)  # HOT
        return (blocks / table).round() * table

    def forward(self, rgb):
        y = self.to_luma(rgb)
        b, h, w = y.shape
        blocks = y.view(b, h // 8, 8, w // 8, 8).transpose(2, 3)
        coef = self.round_trip(self.dct @ blocks @ self.dct.t())
        y = (self.dct.t() @ coef @ self.dct).transpose(2, 3).reshape(b, h, w)
        return (y + 128) / 255


class JpegNoiseFixed(JpegNoise):
    def __init__(self):
        super().__init__()
        self.register_buffer("weights", torch.tensor([0.299, 0.587, 0.114]), persistent=False)
        self.register_buffer("table", torch.tensor(QUANT), persistent=False)

    def to_luma(self, rgb):
        return torch.einsum("bchw,c->bhw", rgb, self.weights) * 255 - 128

    def round_trip(self, blocks):
        return (blocks / self.table).round() * self.table


def build():
    torch.manual_seed(0)
    return JpegNoise(), (torch.rand(1, 3, 32, 32),)


def build_fixed():
    return JpegNoiseFixed(), build()[1]
