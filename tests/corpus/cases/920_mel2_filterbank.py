"""C920 (after pytorch/audio#72, MEL2): the triangular filter bank is built again, band by band, each time the transform is called."""
import math
import torch
from torch import nn

expected = {
    "case": "C920",
    "polarity": "positive",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [32, 33, 34, 35, 36, 39, 43],
    "fix": "register_buffer(persistent=False)",
    "auto_fix_safe": False,
    "why": "the matrix depends on constructor arguments only; it is computed, not a literal, so moving it to __init__ is proposed and explained",
    "hot_share_cpu": 0.75,
    "speedup_cpu": 4.86,
}


class MEL2(nn.Module):
    """Mel bands of a power spectrogram (batch, time, n_fft // 2 + 1)."""

    def __init__(self, sr=16000, n_fft=512, n_mels=40, f_min=0.0, f_max=None):
        super().__init__()
        self.sr, self.n_fft, self.n_mels = sr, n_fft, n_mels
        self.f_min, self.f_max = f_min, f_max or sr // 2

    def _hertz_to_mel(self, f):
        return 2595.0 * math.log10(1.0 + f / 700.0)

    def _filter_bank(self, device):
        m_min, m_max = self._hertz_to_mel(self.f_min), self._hertz_to_mel(self.f_max)
        m_pts = torch.linspace(m_min, m_max, self.n_mels + 2, device=device)  # HOT
        f_pts = 700.0 * (10 ** (m_pts / 2595.0) - 1)  # HOT
        bins = torch.floor((self.n_fft + 1) * f_pts / self.sr).tolist()  # HOT
        edges = [int(b) for b in bins]  # HOT
        fb = torch.zeros(self.n_fft // 2 + 1, self.n_mels, device=device)  # HOT
        for m in range(1, self.n_mels + 1):
            lo, width = edges[m - 1], edges[m + 1] - edges[m - 1]
            fb[lo : lo + width, m - 1] = torch.bartlett_window(width, device=device)  # HOT
        return fb

    def forward(self, spec):
        fb = self._filter_bank(spec.device)  # HOT
        return torch.matmul(spec, fb).clamp(min=1e-10).log()


class MEL2Fixed(MEL2):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.register_buffer("fb", self._filter_bank(None), persistent=False)

    def forward(self, spec):
        return torch.matmul(spec, self.fb).clamp(min=1e-10).log()


def build():
    torch.manual_seed(0)
    return MEL2(), (torch.rand(4, 80, 257),)


def build_fixed():
    return MEL2Fixed(), build()[1]
