"""C404 (after spectral noise gates in speech front ends, numpy ports): every clip of the batch is gated on its own, with out=."""
import torch
from torch import nn

expected = {
    "case": "C404",
    "polarity": "positive",
    "kind": "batch_loop_where",
    "hot_lines": [24, 25, 26],
    "fix": "broadcast_where",
    "auto_fix_safe": True,
    "why": "clips do not see each other; maximum, median and where take the batch dimension along, the out= target is fresh",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 2.80,
}


def gate_batch(mag, margin, keep):
    """Attenuate bins that stay below both the clip's own floor and `margin` times its peak."""
    gated = torch.empty_like(mag)
    b = 0
    while b < len(mag):
        clip = mag[b]
        floor = clip.median(dim=-1, keepdim=True).values  # HOT
        quiet = torch.logical_and(clip < 2.0 * floor, clip < margin * clip.max())  # HOT
        torch.where(quiet, clip * keep[b], clip, out=gated[b])  # HOT
        b += 1
    return gated


class NoiseGate(nn.Module):
    def __init__(self, n_fft=64, margin=0.08):
        super().__init__()
        self.n_fft, self.margin = n_fft, margin
        self.register_buffer("window", torch.hann_window(n_fft, dtype=torch.float64), persistent=False)

    def gate(self, mag, keep):
        return gate_batch(mag, self.margin, keep)

    def forward(self, wave, keep):
        spec = torch.stft(wave, self.n_fft, hop_length=32, window=self.window, return_complex=True)
        mag = self.gate(spec.abs(), keep)
        return torch.log1p(mag)


class NoiseGateFixed(NoiseGate):
    def gate(self, mag, keep):
        floor = mag.median(dim=-1, keepdim=True).values
        quiet = torch.logical_and(mag < 2.0 * floor, mag < self.margin * mag.amax(dim=(1, 2), keepdim=True))
        return torch.where(quiet, mag * keep[:, None, None], mag)


def build():
    torch.manual_seed(0)
    wave = torch.randn(96, 256, dtype=torch.float64) * torch.rand(96, 1, dtype=torch.float64)
    return NoiseGate(), (wave, torch.rand(96, dtype=torch.float64))


def build_fixed():
    return NoiseGateFixed(), build()[1]
