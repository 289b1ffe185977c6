"""C109 (after torch-audiomentations#41): every clip of a batch is rolled by its own amount in a comprehension."""
import torch
from torch import nn

expected = {
    "case": "C109",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [25, 28],
    "fix": "gather_with_shifted_index",
    "auto_fix_safe": True,
    "why": "rolling by s reads place (t - s) mod T, so one gather does all clips; int(s) is also a device sync per clip on a GPU",
    "hot_share_cpu": 0.94,
    "speedup_cpu": 12.84,
}


class ClipShift(nn.Module):
    def __init__(self, channels=2):
        super().__init__()
        self.gain = nn.Parameter(torch.linspace(0.5, 1.5, channels).view(channels, 1))

    @staticmethod
    def _spin(clip, amount):
        return clip.roll(shifts=int(amount), dims=-1)  # HOT

    def shift(self, clips, amounts):
        return torch.cat([self._spin(c, s) for c, s in zip(clips.chunk(len(clips)), amounts)])  # HOT

    def forward(self, clips, amounts):
        return self.shift(clips * self.gain, amounts)


class ClipShiftFixed(ClipShift):
    def shift(self, clips, amounts):
        length = clips.size(-1)
        place = torch.arange(length, device=clips.device)
        source = (place - amounts.unsqueeze(-1)) % length
        return clips.gather(-1, source.unsqueeze(1).expand_as(clips))


def build():
    torch.manual_seed(19)
    return ClipShift(), (torch.randn(80, 2, 40), torch.randint(-60, 60, (80,)))


def build_fixed():
    return ClipShiftFixed(), build()[1]
