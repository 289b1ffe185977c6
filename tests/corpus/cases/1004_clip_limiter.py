"""C1004: a soft limiter run clip by clip, each with its own limit."""
import torch
from torch import Tensor, nn

expected = {
    "case": "C1004",
    "polarity": "positive",
    "kind": "batch_loop_where",
    "hot_lines": [24, 25, 26, 31],
    "fix": "broadcast_per_sample_parameter",
    "auto_fix_safe": True,
    "why": "limit() is elementwise in the clip and its scalar, so a (B, 1, 1) limit gives the same numbers in one pass",
    "hot_share_cpu": 0.94,
    "speedup_cpu": 14.36,
}


class ClipLimiter(nn.Module):
    def __init__(self, ratio: float = 4.0) -> None:
        super().__init__()
        self.ratio = nn.Parameter(torch.tensor(ratio))

    def limit(self, wave: Tensor, ceiling: Tensor) -> Tensor:
        over = wave.abs() - ceiling  # HOT
        squashed = wave.sign() * (ceiling + over / self.ratio)  # HOT
        return torch.where(over > 0, squashed, wave)  # HOT

    def forward(self, waves: Tensor, ceilings: Tensor) -> Tensor:
        out = torch.empty_like(waves)
        for i, (wave, ceiling) in enumerate(zip(waves, ceilings)):
            out[i] = self.limit(wave, ceiling)  # HOT
        return out


class ClipLimiterFixed(ClipLimiter):
    def forward(self, waves: Tensor, ceilings: Tensor) -> Tensor:
        return self.limit(waves, ceilings[:, None, None])


def build():
    torch.manual_seed(0)
    return ClipLimiter(), (torch.randn(96, 2, 200), torch.rand(96) + 0.2)


def build_fixed():
    slow, inputs = build()
    fast = ClipLimiterFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
