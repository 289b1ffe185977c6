"""C508 (after distributional reinforcement learning agents, QR-DQN): the quantile Huber loss written region by region."""
import torch
from torch import nn

expected = {
    "case": "C508",
    "polarity": "positive",
    "kind": "bool_mask_assign",
    "hot_lines": [30, 31],
    "fix": "torch.where",
    "auto_fix_safe": True,
    "why": "two complementary masks fill a fresh tensor; both branches are finite with finite gradients everywhere",
    "hot_share_cpu": 0.88,
    "speedup_cpu": 5.71,
}


class QuantileTD(nn.Module):
    def __init__(self, obs=16, actions=4, quantiles=40, kappa=1.0):
        super().__init__()
        self.shape = (actions, quantiles)
        self.kappa = kappa
        self.net = nn.Linear(obs, actions * quantiles)
        self.register_buffer("taus", (torch.arange(quantiles) + 0.5) / quantiles)

    def huber(self, u):
        loss = torch.zeros_like(u)
        near = u.abs() <= self.kappa
        far = ~near
        loss[near] = 0.5 * u[near].pow(2)  # HOT
        loss[far] = self.kappa * (u[far].abs() - 0.5 * self.kappa)  # HOT
        return loss

    def forward(self, obs, action, target):
        theta = self.net(obs).view(-1, *self.shape)
        theta = theta[torch.arange(len(action)), action]
        u = target.unsqueeze(1) - theta.unsqueeze(2)
        below = (u.detach() < 0).to(u.dtype)
        weight = (self.taus.view(1, -1, 1) - below).abs()
        return (weight * self.huber(u)).mean(dim=2).sum(dim=1)


class QuantileTDFixed(QuantileTD):
    def huber(self, u):
        size = u.abs()
        return torch.where(size <= self.kappa, 0.5 * u.pow(2), self.kappa * (size - 0.5 * self.kappa))


def build():
    torch.manual_seed(0)
    inputs = (torch.randn(64, 16), torch.randint(0, 4, (64,)), torch.randn(64, 40) * 1.5)
    return QuantileTD(), inputs


def build_fixed():
    slow, inputs = build()
    fast = QuantileTDFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
