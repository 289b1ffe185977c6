"""C106 (after voice-activity gates in speech models): silent frames are swapped for a learned vector, one frame at a time."""
import torch
from torch import nn

expected = {
    "case": "C106",
    "polarity": "positive",
    "kind": "where_loop",
    "hot_lines": [19, 30],
    "fix": "one_where_by_broadcasting",
    "auto_fix_safe": True,
    "why": "torch.where is elementwise and the frames do not read each other, so the condition broadcasts over the last dimension",
    "hot_share_cpu": 0.94,
    "speedup_cpu": 16.91,
}


def _swap_silent(frame, active, filler):
    return torch.where(active.unsqueeze(-1), frame, filler)  # HOT


class VoiceGate(nn.Module):
    def __init__(self, width=20, level=0.4):
        super().__init__()
        self.level = level
        self.filler = nn.Parameter(torch.randn(width))
        self.out = nn.Linear(width, width)

    def gate(self, frames, voiced):
        rows = [_swap_silent(f, v, self.filler) for f, v in zip(frames.unbind(1), voiced.unbind(1))]  # HOT
        return torch.stack(rows, dim=1)

    def forward(self, frames, activity):
        return self.out(self.gate(frames, activity > self.level))


class VoiceGateFixed(VoiceGate):
    def gate(self, frames, voiced):
        return torch.where(voiced.unsqueeze(-1), frames, self.filler)


def build():
    torch.manual_seed(16)
    return VoiceGate(), (torch.randn(3, 90, 20), torch.rand(3, 90))


def build_fixed():
    slow, inputs = build()
    fast = VoiceGateFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
