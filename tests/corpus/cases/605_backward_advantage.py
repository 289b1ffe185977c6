"""C605 (after single-file policy gradient implementations): generalised advantage estimation, walked from the last step to the first."""
import torch
from torch import nn

expected = {
    "case": "C605",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [25],
    "fix": "list_then_one_cat",
    "auto_fix_safe": True,
    "why": "the growing tensor is only returned; the recurrence runs through `carry`. New rows go to the front, so the list is reversed before it is stacked",
    "hot_share_cpu": 0.50,
    "speedup_cpu": 2.09,
}


def advantages(reward, value, last_value, alive, gamma=0.99, lam=0.95):
    """All arguments are time first; last_value closes the horizon."""
    adv = reward.new_empty((0, reward.shape[1]))
    carry, ahead = torch.zeros_like(last_value), last_value
    for t in range(reward.shape[0] - 1, -1, -1):
        delta = reward[t] + gamma * alive[t] * ahead - value[t]
        carry = delta + gamma * lam * alive[t] * carry
        adv = torch.cat((carry[None], adv), dim=0)  # HOT
        ahead = value[t]
    return adv


def advantages_fixed(reward, value, last_value, alive, gamma=0.99, lam=0.95):
    rows = []
    carry, ahead = torch.zeros_like(last_value), last_value
    for t in range(reward.shape[0] - 1, -1, -1):
        delta = reward[t] + gamma * alive[t] * ahead - value[t]
        carry = delta + gamma * lam * alive[t] * carry
        rows.append(carry)
        ahead = value[t]
    return torch.stack(rows[::-1])


class AdvantageHead(nn.Module):
    estimate = staticmethod(advantages)

    def __init__(self, obs=3):
        super().__init__()
        self.critic = nn.Linear(obs, 1)

    def forward(self, obs, reward, done):
        value = self.critic(obs).squeeze(-1)
        adv = self.estimate(reward, value[:-1].detach(), value[-1].detach(), (done == 0).float())
        critic_loss = (adv + value[:-1].detach() - value[:-1]).square().mean()
        return (adv - adv.mean()) / (adv.std() + 1e-8), critic_loss


class AdvantageHeadFixed(AdvantageHead):
    estimate = staticmethod(advantages_fixed)


def build():
    torch.manual_seed(0)
    steps, envs = 320, 1536
    done = (torch.rand(steps, envs) < 0.02).long()
    return AdvantageHead(), (torch.randn(steps + 1, envs, 3), torch.randn(steps, envs), done)


def build_fixed():
    slow, inputs = build()
    fast = AdvantageHeadFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
