"""C1112: transitions of a replay buffer become a batch through a list of float64 arrays."""
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

expected = {
    "case": "C1112",
    "polarity": "positive",
    "kind": "tensor_from_list_of_arrays",
    "hot_lines": [33],
    "fix": "np.stack_then_from_numpy",
    "auto_fix_safe": True,
    "why": "both forms raise for ragged rows and otherwise round the same float64 values; stack owns its memory, so nothing is aliased",
    "hot_share_cpu": 0.87,
    "speedup_cpu": 8.24,
}


@dataclass
class Transition:
    obs: np.ndarray
    reward: float


class ValueNet(nn.Module):
    def __init__(self, obs_dim=96, hidden=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, hidden), nn.Tanh(), nn.Linear(hidden, 1))

    def forward(self, batch):
        obs = torch.as_tensor([tr.obs for tr in batch], dtype=torch.float32)  # HOT
        reward = torch.as_tensor([tr.reward for tr in batch], dtype=torch.float32)
        return (self.body(obs).squeeze(-1) - reward).square()


class ValueNetFixed(ValueNet):
    def forward(self, batch):
        obs = torch.from_numpy(np.stack([tr.obs for tr in batch])).to(torch.float32)
        reward = torch.as_tensor([tr.reward for tr in batch], dtype=torch.float32)
        return (self.body(obs).squeeze(-1) - reward).square()


def build():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    batch = [Transition(rng.standard_normal(96), float(rng.random())) for _ in range(128)]
    return ValueNet(), (batch,)


def build_fixed():
    slow, inputs = build()
    fast = ValueNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
