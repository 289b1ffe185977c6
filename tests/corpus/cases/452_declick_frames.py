"""C452 negative (after click removal in audio restoration): frames are repaired in place through overlapping views of one signal."""
import torch
from torch import nn

expected = {
    "case": "C452",
    "polarity": "negative",
    "kind": "where_loop",
    "hot_lines": [29, 30, 31, 32],
    "must_not": "flag the frames as independent or offer one where over all frames",
    "auto_fix_safe": False,
    "why": "unfold gives views of one storage that overlap by half; each frame's median and limit see the repairs of the frame before",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.90,
    "speedup_cpu": None,
}


class Declick(nn.Module):
    """Replaces samples far from the frame's median by that median."""

    def __init__(self, frame=32, hop=16, ratio=3.0):
        super().__init__()
        self.frame, self.hop, self.ratio = frame, hop, ratio

    def repair(self, frames):
        for k in range(frames.size(1)):
            frame = frames[:, k]
            centre = frame.median(dim=-1, keepdim=True).values  # LOOKS-HOT
            dev = (frame - centre).abs()  # LOOKS-HOT
            click = dev > self.ratio * dev.mean(dim=-1, keepdim=True)  # LOOKS-HOT
            frame.copy_(torch.where(click, centre, frame))  # LOOKS-HOT

    def forward(self, wave):
        clean = wave.clone()
        self.repair(clean.unfold(-1, self.frame, self.hop))
        return clean - clean.mean(dim=-1, keepdim=True)


class DeclickNaive(Declick):
    def repair(self, frames):
        centre = frames.median(dim=-1, keepdim=True).values
        dev = (frames - centre).abs()
        fixed = torch.where(dev > self.ratio * dev.mean(dim=-1, keepdim=True), centre, frames)
        for k in range(frames.size(1)):
            frames[:, k] = fixed[:, k]


def build():
    torch.manual_seed(0)
    wave = torch.randn(4, 1600, dtype=torch.float64)
    wave[torch.rand(4, 1600) < 0.03] *= 9.0
    return Declick(), (wave,)


def build_naive_fix():
    return DeclickNaive(), build()[1]
