"""C115 (after multi-attribute face and clothing classifiers, see open-mmlab/mmpretrain#145): one small linear head per attribute on one feature."""
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C115",
    "polarity": "positive",
    "kind": "module_list_loop_same_input",
    "hot_lines": [33],
    "fix": "concatenate_weights_one_linear",
    "auto_fix_safe": False,
    "why": "one wide linear layer gives all logits, but it joins weights on each call or changes the checkpoint, and skips hooks of the heads",
    "hot_share_cpu": 0.86,
    "speedup_cpu": 3.62,
}


class Verdict(NamedTuple):
    logits: torch.Tensor
    feature: torch.Tensor


class AttributeNet(nn.Module):
    def __init__(self, names=tuple(f"attr{i}" for i in range(40)), width=32):
        super().__init__()
        self.stem = nn.Linear(width, width)
        self.heads = nn.ModuleDict({n: nn.Linear(width, 2) for n in names})

    def _classify(self, z):
        scores = {name: head(z) for name, head in self.heads.items()}  # HOT
        return torch.stack(list(scores.values()), dim=1)

    def forward(self, x):
        z = self.stem(x).relu()
        return Verdict(self._classify(z), z)


class AttributeNetFixed(AttributeNet):
    def _classify(self, z):
        weight = torch.cat([h.weight for h in self.heads.values()])
        bias = torch.cat([h.bias for h in self.heads.values()])
        return F.linear(z, weight, bias).view(z.size(0), -1, 2)


def build():
    torch.manual_seed(25)
    return AttributeNet(), (torch.randn(16, 32),)


def build_fixed():
    slow, inputs = build()
    fast = AttributeNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
