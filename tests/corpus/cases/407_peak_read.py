"""C407 (after keypoint detectors of the CenterNet kind): regression maps are read at the peaks by a per-image helper."""
import torch
from torch import nn
import torch.nn.functional as F

expected = {
    "case": "C407",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [33, 34, 35, 36, 37],
    "fix": "batched_gather",
    "auto_fix_safe": False,
    "why": "images are independent and all have k peaks, but the helper is written for one image: helper and caller change together",
    "hot_share_cpu": 0.69,
    "speedup_cpu": 6.11,
}


class PeakDecoder(nn.Module):
    def __init__(self, channels=4, k=6):
        super().__init__()
        self.k = k
        self.heat = nn.Conv2d(channels, 1, 1)
        self.reg = nn.Conv2d(channels, 4, kernel_size=1)

    def peaks(self, feat):
        h = self.heat(feat).sigmoid()
        h = h * (F.max_pool2d(h, 3, stride=1, padding=1) == h)
        return h.flatten(1).topk(self.k)

    def boxes(self, where, reg, width):
        """Corner boxes of one image; `reg` is (4, H, W): two offsets, two sizes."""
        at = reg.flatten(1).index_select(dim=1, index=where)  # HOT
        cx = where % width + at[0]  # HOT
        cy = torch.div(where, width, rounding_mode="floor") + at[1]  # HOT
        half = at[2:].exp() / 2  # HOT
        return torch.stack((cx - half[0], cy - half[1], cx + half[0], cy + half[1]), dim=1)  # HOT

    def forward(self, feat):
        score, where = self.peaks(feat)
        reg = self.reg(feat)
        found = map(lambda b: self.boxes(where[b], reg[b], feat.size(-1)), range(feat.size(0)))
        return score, torch.cat(list(found)).view(feat.size(0), self.k, 4)


class PeakDecoderFixed(PeakDecoder):
    def forward(self, feat):
        score, where = self.peaks(feat)
        width = feat.size(-1)
        at = self.reg(feat).flatten(2).gather(2, where[:, None].expand(-1, 4, -1)).transpose(1, 2)
        centre = torch.stack((where % width, torch.div(where, width, rounding_mode="floor")), dim=-1) + at[..., :2]
        half = at[..., 2:].exp() / 2
        return score, torch.cat((centre - half, centre + half), dim=-1)


def build():
    torch.manual_seed(0)
    return PeakDecoder(), (torch.randn(48, 4, 12, 12),)


def build_fixed():
    slow, inputs = build()
    fast = PeakDecoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
