"""C1012: a dictionary of one-output heads on the same features."""
from typing import Dict

import torch
from torch import Tensor, nn

expected = {
    "case": "C1012",
    "polarity": "positive",
    "kind": "module_list_loop_same_input",
    "hot_lines": [27],
    "fix": "one_linear_with_stacked_weights",
    "auto_fix_safe": False,
    "why": "all heads read one tensor, so their weights stack into one matmul; hooks, per-head optimizers or swapped heads would break, so propose it",
    "hot_share_cpu": 0.94,
    "speedup_cpu": 6.03,
}


class FindingHeads(nn.Module):
    def __init__(self, tasks: int = 140, width: int = 32) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(48, width), nn.ReLU())
        self.heads = nn.ModuleDict({f"task_{i:03d}": nn.Linear(width, 1) for i in range(tasks)})

    def predict(self, feats: Tensor) -> Dict[str, Tensor]:
        return {name: head(feats).sigmoid() for name, head in self.heads.items()}  # HOT

    def forward(self, x: Tensor) -> Tensor:
        scores = self.predict(self.trunk(x))
        return torch.cat(list(scores.values()), dim=1)


class FindingHeadsFixed(FindingHeads):
    def forward(self, x: Tensor) -> Tensor:
        weight = torch.cat([head.weight for head in self.heads.values()])
        bias = torch.cat([head.bias for head in self.heads.values()])
        return nn.functional.linear(self.trunk(x), weight, bias).sigmoid()


def build():
    torch.manual_seed(0)
    return FindingHeads(), (torch.randn(16, 48),)


def build_fixed():
    slow, inputs = build()
    fast = FindingHeadsFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
