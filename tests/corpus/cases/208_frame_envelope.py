"""C208 (after audio front ends that frame with unfold; cf. pytorch#172205): overlapping windows are copied out, then only reduced."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C208",
    "polarity": "positive",
    "kind": "contiguous_churn",
    "hot_lines": [27],
    "fix": "drop_contiguous",
    "auto_fix_safe": True,
    "why": "both consumers are reductions over the last axis, which read the overlapping strides and never write them",
    "hot_share_cpu": 0.20,
    "speedup_cpu": 1.42,
}


class FrameEnvelope(nn.Module):
    def __init__(self, plans=((64, 16), (256, 64), (128, 32))):
        super().__init__()
        self.plans = plans
        self.tilt = nn.Parameter(torch.tensor(0.97))
        self.weight = nn.Parameter(torch.ones(len(plans)))

    def crest(self, wave, win, hop):
        seg = wave.unfold(dimension=-1, size=win, step=hop).contiguous()  # HOT
        return seg.amax(dim=-1) - seg.mean(dim=-1)

    def forward(self, wave):
        wave = wave - self.tilt * F.pad(wave, (1, 0))[..., :-1]
        levels = []
        for gain, (win, hop) in zip(self.weight.unbind(), self.plans):
            levels.append(gain * self.crest(wave, win, hop))
        return torch.log1p(torch.cat(levels, dim=-1).clamp(min=0))


class FrameEnvelopeFixed(FrameEnvelope):
    def crest(self, wave, win, hop):
        seg = wave.unfold(dimension=-1, size=win, step=hop)
        return seg.amax(dim=-1) - seg.mean(dim=-1)


def build():
    torch.manual_seed(0)
    return FrameEnvelope(), (torch.randn(4, 8000),)


def build_fixed():
    slow, inputs = build()
    fast = FrameEnvelopeFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
