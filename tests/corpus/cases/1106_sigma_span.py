"""C1106: the noise range of a fixed schedule is read back in every sampler step."""
import torch
from torch import nn

expected = {
    "case": "C1106",
    "polarity": "positive",
    "kind": "loop_invariant_host_sync",
    "hot_lines": [28],
    "fix": "hoist_before_loop",
    "auto_fix_safe": True,
    "why": "self.sigmas is a buffer that the loop never writes, so the read gives the same float in every turn",
    "hot_share_cpu": 0.26,
    "speedup_cpu": 1.34,
}


class EulerSampler(nn.Module):
    def __init__(self, dim=32, steps=60, levels=1000):
        super().__init__()
        self.denoise = nn.Linear(dim, dim)
        self.register_buffer("sigmas", torch.linspace(0.03, 14.6, levels).pow(1.2))
        self.steps = steps

    def forward(self, latent):
        i = 0
        while i < self.steps:
            span = (self.sigmas.max() - self.sigmas.min()).item()  # HOT
            drift = torch.tanh(self.denoise(latent)) - latent
            latent = latent + drift * (span / (span + self.steps - i))
            i += 1
        return latent


class EulerSamplerFixed(EulerSampler):
    def forward(self, latent):
        i = 0
        span = (self.sigmas.max() - self.sigmas.min()).item()
        while i < self.steps:
            drift = torch.tanh(self.denoise(latent)) - latent
            latent = latent + drift * (span / (span + self.steps - i))
            i += 1
        return latent


def build():
    torch.manual_seed(0)
    return EulerSampler(), (torch.randn(16, 32),)


def build_fixed():
    slow, inputs = build()
    fast = EulerSamplerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
