"""C1121: the gradient norm is gathered and applied parameter by parameter."""
import torch
from torch import nn

expected = {
    "case": "C1121",
    "polarity": "positive",
    "kind": "optimizer_param_loop",
    "hot_lines": [30, 35],
    "fix": "clip_grad_norm_",
    "auto_fix_safe": False,
    "why": "clip_grad_norm_ is the same up to rounding, but here the squares are summed in double and the norm is a float, not a tensor",
    "hot_share_cpu": 0.30,
    "speedup_cpu": 1.27,
}


class ClippedStep(nn.Module):
    def __init__(self, width=8, depth=40, limit=0.01):
        super().__init__()
        self.net = nn.Sequential(*[nn.Linear(width, width) for _ in range(depth)])
        self.limit = limit
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def forward(self, x):
        self.opt.zero_grad()
        self.net(x).square().sum().backward()
        total_norm = 0.0
        for p in self.net.parameters():
            total_norm += p.grad.data.norm(2).item() ** 2  # HOT
        total_norm = total_norm ** 0.5
        clip_coef = self.limit / (total_norm + 1e-6)
        if clip_coef < 1:
            for p in self.net.parameters():
                p.grad.data.mul_(clip_coef)  # HOT
        self.opt.step()
        return total_norm


class ClippedStepFixed(ClippedStep):
    def forward(self, x):
        self.opt.zero_grad()
        self.net(x).square().sum().backward()
        total_norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.limit, foreach=True)
        self.opt.step()
        return total_norm


def build():
    torch.manual_seed(0)
    model = ClippedStep()
    for layer in model.net:
        nn.init.orthogonal_(layer.weight)
    return model, (torch.randn(4, 8),)


def build_fixed():
    slow, inputs = build()
    fast = ClippedStepFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
