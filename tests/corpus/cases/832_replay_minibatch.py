"""C832 (after pfnet/pfrl#189, morl-baselines#151): a minibatch of transitions, each state an ndarray, fed straight to torch.tensor."""
from collections import namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C832",
    "polarity": "positive",
    "kind": "tensor_from_list_of_arrays",
    "hot_lines": [33, 34],
    "fix": "np.array_first",
    "auto_fix_safe": True,
    "why": "all states have one shape and dtype, so np.array gives the same values in one go; dtype= still decides the result type",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 5.69,
}

Transition = namedtuple("Transition", ("state", "action", "reward", "next_state", "done"))


class DQNLoss(nn.Module):
    def __init__(self, obs_dim=96, n_actions=4, gamma=0.99):
        super().__init__()
        self.q_net = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU(), nn.Linear(64, n_actions))
        self.target_net = nn.Sequential(nn.Linear(obs_dim, 64), nn.ReLU(), nn.Linear(64, n_actions))
        self.gamma = gamma

    def to_tensors(self, transitions):
        batch = Transition(*zip(*transitions))
        states = torch.tensor(batch.state, dtype=torch.float32)  # HOT
        next_states = torch.tensor(batch.next_state, dtype=torch.float32)  # HOT
        actions = torch.tensor(batch.action, dtype=torch.int64).unsqueeze(1)
        rewards = torch.tensor(batch.reward, dtype=torch.float32)
        not_done = 1.0 - torch.tensor(batch.done, dtype=torch.float32)
        return states, actions, rewards, next_states, not_done

    def forward(self, transitions):
        s, a, r, s_prime, not_done = self.to_tensors(transitions)
        q_a = self.q_net(s).gather(1, a).squeeze(1)
        with torch.no_grad():
            max_q_prime = self.target_net(s_prime).max(1)[0]
        return F.smooth_l1_loss(q_a, r + self.gamma * max_q_prime * not_done)


class DQNLossFixed(DQNLoss):
    def to_tensors(self, transitions):
        batch = Transition(*zip(*transitions))
        states = torch.tensor(np.array(batch.state), dtype=torch.float32)
        next_states = torch.tensor(np.array(batch.next_state), dtype=torch.float32)
        actions = torch.tensor(batch.action, dtype=torch.int64).unsqueeze(1)
        rewards = torch.tensor(batch.reward, dtype=torch.float32)
        return states, actions, rewards, next_states, 1.0 - torch.tensor(batch.done, dtype=torch.float32)


def build(loss=DQNLoss):
    torch.manual_seed(0)
    rng = np.random.RandomState(0)
    obs = rng.randn(33, 96)
    steps = [(obs[i], int(rng.randint(4)), float(rng.randn()), obs[i + 1], i % 9 == 0) for i in range(32)]
    return loss(), (steps,)


def build_fixed():
    return build(DQNLossFixed)
