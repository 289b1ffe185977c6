"""C1019: windows of a signal joined with torch.cat, starting from None."""
import torch
from torch import nn

expected = {
    "case": "C1019",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [34],
    "fix": "append_then_cat_once",
    "auto_fix_safe": True,
    "why": "inside the loop only `is None` is asked of the growing tensor, so a list and one cat are equal (unfold is the bigger rewrite)",
    "hot_share_cpu": 0.80,
    "speedup_cpu": 4.82,
}


class FrameSignal(nn.Module):
    def __init__(self, win=64, hop=16, bands=12):
        super().__init__()
        self.win, self.hop = win, hop
        self.taper = nn.Parameter(torch.hann_window(win))
        self.bank = nn.Linear(win, bands)

    def forward(self, wave):
        if wave.size(-1) < self.win:
            wave = nn.functional.pad(wave, (0, self.win - wave.size(-1)))
        frames, start = None, 0
        while start + self.win <= wave.size(-1):
            piece = wave[:, None, start : start + self.win]
            if frames is None:
                frames = piece
            else:
                frames = torch.cat((frames, piece), dim=1)  # HOT
            start += self.hop
        return self.bank(frames * self.taper).exp()


class FrameSignalFixed(FrameSignal):
    def forward(self, wave):
        if wave.size(-1) < self.win:
            wave = nn.functional.pad(wave, (0, self.win - wave.size(-1)))
        frames, start = [], 0
        while start + self.win <= wave.size(-1):
            frames.append(wave[:, None, start : start + self.win])
            start += self.hop
        return self.bank(torch.cat(frames, dim=1) * self.taper).exp()


def build():
    torch.manual_seed(0)
    return FrameSignal(), (torch.randn(8, 3000),)


def build_fixed():
    slow, inputs = build()
    fast = FrameSignalFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
