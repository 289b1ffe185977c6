"""C302 (after amptorch#11, vision#1260): tokens of every block of every stage stacked onto an empty seed, two loops deep."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C302",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [24],
    "fix": "append_then_cat_once",
    "auto_fix_safe": True,
    "why": "tokens is written and never read in either loop; keeping the empty seed as first list entry covers the no-stage case",
    "hot_share_cpu": 0.63,
    "speedup_cpu": 3.54,
}


def collect(stages, x):
    tokens = torch.empty((x.size(0), 0, x.size(2)), dtype=x.dtype, device=x.device)
    for name, blocks in stages.items():
        for block in blocks:
            x = F.relu(block(x))
            tokens = torch.hstack([tokens, x])  # HOT
        x = x[:, ::2]
    return tokens


def collect_once(stages, x):
    tokens = [torch.empty((x.size(0), 0, x.size(2)), dtype=x.dtype, device=x.device)]
    for name, blocks in stages.items():
        for block in blocks:
            x = F.relu(block(x))
            tokens.append(x)
        x = x[:, ::2]
    return torch.hstack(tokens)


class StageTokens(nn.Module):
    gather = staticmethod(collect)

    def __init__(self, width=32, stages=4, depth=6):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.stages = nn.ModuleDict({
            f"stage{i}": nn.ModuleList([nn.Linear(width, width) for _ in range(depth)]) for i in range(stages)
        })

    def forward(self, image):
        patches = image.flatten(2).transpose(1, 2)
        return self.gather(self.stages, self.norm(patches))


class StageTokensFixed(StageTokens):
    gather = staticmethod(collect_once)


def build():
    torch.manual_seed(0)
    return StageTokens(), (torch.randn(8, 32, 16, 16),)


def build_fixed():
    slow, inputs = build()
    fast = StageTokensFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
