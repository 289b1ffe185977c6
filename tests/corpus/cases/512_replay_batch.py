"""C512 (after DQN tutorials and their many copies): a sampled list of transitions becomes a batch inside the agent."""
from collections import namedtuple

import numpy as np
import torch
from torch import nn

expected = {
    "case": "C512",
    "polarity": "positive",
    "kind": "tensor_from_list_of_arrays",
    "hot_lines": [31, 32],
    "fix": "np_stack_then_from_numpy",
    "auto_fix_safe": True,
    "why": "the arrays have one shape; stacking them first copies memory instead of converting number by number, float32 either way",
    "hot_share_cpu": 0.95,
    "speedup_cpu": 11.43,
}

Transition = namedtuple("Transition", "state action reward next_state done")


class TDError(nn.Module):
    def __init__(self, features=120, actions=5, gamma=0.97):
        super().__init__()
        self.gamma = gamma
        self.q = nn.Linear(features, actions)
        self.q_target = nn.Linear(features, actions)

    def collate(self, batch):
        states = torch.FloatTensor([t.state for t in batch])  # HOT
        next_states = torch.FloatTensor([t.next_state for t in batch])  # HOT
        return states, next_states

    def forward(self, batch):
        states, next_states = self.collate(batch)
        actions = torch.LongTensor([t.action for t in batch])
        rewards = torch.FloatTensor([t.reward for t in batch])
        alive = 1.0 - torch.FloatTensor([t.done for t in batch])
        chosen = self.q(states).gather(1, actions.unsqueeze(1)).squeeze(1)
        best = self.q_target(next_states).max(dim=1).values.detach()
        return chosen - (rewards + self.gamma * alive * best)


class TDErrorFixed(TDError):
    def collate(self, batch):
        states = torch.from_numpy(np.stack([t.state for t in batch])).float()
        next_states = torch.from_numpy(np.stack([t.next_state for t in batch])).float()
        return states, next_states


def build():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    batch = [Transition(rng.normal(size=120), int(rng.integers(5)), float(rng.normal()),
                        rng.normal(size=120), bool(rng.integers(2))) for _ in range(64)]
    return TDError(), (batch,)


def build_fixed():
    slow, inputs = build()
    fast = TDErrorFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
