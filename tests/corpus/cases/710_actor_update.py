"""D710 (kind of project: LLM-written PPO trainer): clipping and decoupled decay written out over the parameters of the actor."""
import math

import torch
from torch import nn

expected = {
    "case": "D710",
    "polarity": "positive",
    "kind": "optimizer_param_loop",
    "hot_lines": [39, 42, 43, 44],
    "fix": "foreach_or_clip_grad_norm",
    "auto_fix_safe": False,
    "why": "clip_grad_norm_ keeps the norm a tensor and rounds differently; the decay belongs into the optimizer, which is the owner's choice",
    "hot_share_cpu": 0.47,
    "speedup_cpu": 1.30,
}


class Actor(nn.Module):
    def __init__(self, agents=24, obs=6, act=2):
        super().__init__()
        self.heads = nn.ModuleList(nn.Sequential(nn.Linear(obs, 12), nn.Tanh(), nn.Linear(12, act)) for _ in range(agents))

    def forward(self, obs):
        return torch.stack([head(o) for head, o in zip(self.heads, obs)])


class ActorUpdate(nn.Module):
    """One update step; reports the gradient norm before clipping."""

    limit, lr, decay = 0.5, 1e-3, 0.01

    def __init__(self):
        super().__init__()
        self.actor = Actor()

    def apply_gradients(self):
        norm = math.sqrt(sum(p.grad.data.norm(2).item() ** 2 for p in self.actor.parameters()))  # HOT
        scale = min(1.0, self.limit / (norm + 1e-6))
        for p in self.actor.parameters():
            p.grad.data.mul_(scale)  # HOT
            p.data.mul_(1 - self.lr * self.decay)  # HOT
            p.data.add_(p.grad.data, alpha=-self.lr)  # HOT
        return torch.tensor(norm)

    def forward(self, obs, advantage):
        self.actor.zero_grad()
        loss = -(self.actor(obs).tanh() * advantage).mean(dim=1).sum()
        loss.backward()
        return loss.detach(), self.apply_gradients()


class ActorUpdateFixed(ActorUpdate):
    @torch.no_grad()
    def apply_gradients(self):
        norm = nn.utils.clip_grad_norm_(params := list(self.actor.parameters()), self.limit)
        torch._foreach_mul_(params, 1 - self.lr * self.decay)
        torch._foreach_add_(params, [p.grad for p in params], alpha=-self.lr)
        return norm


def build(cls=ActorUpdate):
    torch.manual_seed(0)
    return cls(), (torch.randn(24, 32, 6), torch.randn(24, 32, 2))


def build_fixed():
    return build(ActorUpdateFixed)
