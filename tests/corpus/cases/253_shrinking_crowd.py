"""C253 negative (after adaptive-depth layers; cf. sglang-omni#1150): a count that looks loop-invariant, but a helper edits its tensor."""
import torch
from torch import nn

expected = {
    "case": "C253",
    "polarity": "negative",
    "kind": "loop_invariant_host_sync",
    "hot_lines": [32],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "retire() changes live in place, so the count is another one in each turn; hoisting the read freezes the first",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.11,
    "speedup_cpu": None,
}


def retire(live, change, floor):
    live.logical_and_(change > floor)


class ShrinkingCrowd(nn.Module):
    def __init__(self, width=16, depth=10, floor=2.2):
        super().__init__()
        self.floor = floor
        self.gains = nn.ParameterList(nn.Parameter(torch.rand(width) * 3) for _ in range(depth))

    def forward(self, x):
        live = x.new_ones(x.size(0), dtype=torch.bool)
        for gain in self.gains:
            n_live = int(live.sum())  # LOOKS-HOT
            step = torch.sin(gain * x)
            x = x + step * live.to(x.dtype).unsqueeze(-1) / max(n_live, 1)
            retire(live, step.detach().norm(dim=-1), self.floor)
        return x


class ShrinkingCrowdNaive(ShrinkingCrowd):
    def forward(self, x):
        live = x.new_ones(x.size(0), dtype=torch.bool)
        n_live = int(live.sum())
        for gain in self.gains:
            step = torch.sin(gain * x)
            x = x + step * live.to(x.dtype).unsqueeze(-1) / max(n_live, 1)
            retire(live, step.detach().norm(dim=-1), self.floor)
        return x


def build():
    torch.manual_seed(0)
    return ShrinkingCrowd(), (torch.randn(24, 16),)


def build_naive_fix():
    slow, inputs = build()
    naive = ShrinkingCrowdNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
