"""C105 (after NeMo#9155, which vectorised SpecAugment): time strips of each clip are blanked one slice at a time."""
import torch
from torch import nn

expected = {
    "case": "C105",
    "polarity": "positive",
    "kind": "mask_loop",
    "hot_lines": [27],
    "fix": "arange_compare_masked_fill",
    "auto_fix_safe": True,
    "why": "a frame is blanked when it lies in any strip of its clip; the strips only write one constant, so their order does not matter",
    "hot_share_cpu": 0.81,
    "speedup_cpu": 5.29,
}


class StripEraser(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.front = nn.Conv1d(bins, bins, 1)

    def _erase(self, spec, starts, widths):
        strips = torch.stack([starts, starts + widths], dim=-1).tolist()
        for b, clip_strips in enumerate(strips):
            for lo, hi in clip_strips:
                spec[b, :, lo:hi] = 0.0  # HOT
        return spec

    def forward(self, spec, starts, widths):
        return self._erase(self.front(spec), starts, widths).mean(-1)


class StripEraserFixed(StripEraser):
    def _erase(self, spec, starts, widths):
        frame = torch.arange(spec.size(-1), device=spec.device)
        begin = starts.unsqueeze(-1)
        inside = (frame >= begin) & (frame < begin + widths.unsqueeze(-1))
        return spec.masked_fill(inside.any(dim=1, keepdim=True), 0.0)


def build():
    torch.manual_seed(15)
    spec = torch.randn(24, 6, 50)
    return StripEraser(), (spec, torch.randint(0, 45, (24, 4)), torch.randint(0, 9, (24, 4)))


def build_fixed():
    slow, inputs = build()
    fast = StripEraserFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
