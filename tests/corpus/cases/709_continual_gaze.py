"""D709 (kind of project: continual learning with elastic weight consolidation): the penalty is summed parameter by parameter."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "D709",
    "polarity": "positive",
    "kind": "optimizer_param_loop",
    "hot_lines": [45],
    "fix": "flat_vector_or_foreach",
    "auto_fix_safe": False,
    "why": "a flat copy of importance and anchor has to be kept in step with the two dicts; sums round in another order",
    "hot_share_cpu": 0.52,
    "speedup_cpu": 2.26,
}


class GazeNet(nn.Module):
    def __init__(self, width=16, depth=32):
        super().__init__()
        self.embed = nn.Linear(10, width)
        self.blocks = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.scales = nn.ParameterList(nn.Parameter(torch.full((width,), 0.5)) for _ in range(depth))
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        x = self.embed(x)
        for block, scale in zip(self.blocks, self.scales):
            x = x + scale * torch.tanh(block(x))
        return self.out(x)


class ContinualLoss(nn.Module):
    """Task loss plus the quadratic pull towards the weights of earlier tasks."""

    def __init__(self, net, strength=40.0):
        super().__init__()
        self.net, self.strength = net, strength
        self.anchor = {n: p.detach() + 0.01 * torch.randn_like(p) for n, p in net.named_parameters()}
        self.importance = {n: torch.rand_like(p) for n, p in net.named_parameters()}

    def penalty(self):
        terms = (
            torch.sum(self.importance[n] * (p - self.anchor[n]) ** 2)  # HOT
            for n, p in self.net.named_parameters() if p.requires_grad
        )
        return 0.5 * self.strength * sum(terms)

    def forward(self, features, gaze):
        return F.mse_loss(self.net(features), gaze) + self.penalty()


class ContinualLossFixed(ContinualLoss):
    def __init__(self, net, strength=40.0):
        super().__init__(net, strength)
        self.flat_anchor, self.flat_importance = (torch.cat([t.flatten() for t in d.values()]) for d in (self.anchor, self.importance))

    def penalty(self):
        now = torch.cat([p.flatten() for p in self.net.parameters()])
        return 0.5 * self.strength * torch.dot(self.flat_importance, (now - self.flat_anchor) ** 2)


def build(cls=ContinualLoss):
    torch.manual_seed(0)
    return cls(GazeNet()), (torch.randn(32, 10), torch.randn(32, 2))


def build_fixed():
    return build(ContinualLossFixed)
