"""C301 (after torchaudio#1850, amptorch#12): a running result that starts as None and grows by torch.cat for each frame."""
import torch
from torch import Tensor, nn

expected = {
    "case": "C301",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [30],
    "fix": "append_then_cat_once",
    "auto_fix_safe": True,
    "why": "track is only ever extended; the recurrence runs through phase, so the pieces can be collected and joined once",
    "hot_share_cpu": 0.45,
    "speedup_cpu": 1.90,
}


class OscillatorTrack(nn.Module):
    def __init__(self, bands: int = 64):
        super().__init__()
        self.turn = nn.Linear(bands, bands, bias=False)

    def start(self, mel: Tensor) -> Tensor:
        return mel.new_zeros((mel.shape[0], mel.shape[1]))

    def forward(self, mel: Tensor) -> Tensor:
        phase, track = self.start(mel), None
        for frame in torch.unbind(mel, dim=-1):
            phase = torch.sin(self.turn(phase) + frame)
            track = phase if track is None else torch.cat((track, phase), dim=-1)  # HOT
        return track


class OscillatorTrackFixed(OscillatorTrack):
    def forward(self, mel: Tensor) -> Tensor:
        phase, pieces = self.start(mel), []
        for frame in torch.unbind(mel, dim=-1):
            phase = torch.sin(self.turn(phase) + frame)
            pieces.append(phase)
        return torch.cat(pieces, dim=-1)


def build():
    torch.manual_seed(0)
    return OscillatorTrack(), (torch.randn(16, 64, 160),)


def build_fixed():
    slow, inputs = build()
    fast = OscillatorTrackFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
