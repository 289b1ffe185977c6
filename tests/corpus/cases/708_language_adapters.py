"""D708 (kind of project: multilingual adapters, one language a step): all adapters get fresh zero gradients before each step."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "D708",
    "polarity": "positive",
    "kind": "zero_grad_loop",
    "hot_lines": [35, 36],
    "fix": "optimizer_zero_grad",
    "auto_fix_safe": True,
    "why": "plain SGD without momentum or decay: a missing gradient and a zero one give the same step, and nothing else reads .grad",
    "hot_share_cpu": 0.47,
    "speedup_cpu": 6.26,
}

LANGUAGES = [a + b for a in "abcdefgh" for b in "stuvwxyz"]


def adapter(width, inner):
    return nn.Sequential(nn.LayerNorm(width), nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))


class AdapterTrainer(nn.Module):
    def __init__(self, width=24, inner=8):
        super().__init__()
        self.shared = nn.Linear(width, width)
        self.adapters = nn.ModuleDict({code: adapter(width, inner) for code in LANGUAGES})
        self.sgd = torch.optim.SGD(self.parameters(), lr=1e-3)

    def fresh_gradients(self):
        self.shared.weight.grad = self.shared.bias.grad = None
        for code, module in self.adapters.items():
            for p in module.parameters():  # HOT
                p.grad = torch.zeros_like(p)  # HOT

    def forward(self, hidden, target, code):
        self.fresh_gradients()
        hidden = self.shared(hidden)
        loss = F.smooth_l1_loss(hidden + self.adapters[code](hidden), target)
        loss.backward()
        self.sgd.step()
        return loss.detach()


class AdapterTrainerFixed(AdapterTrainer):
    def fresh_gradients(self):
        self.sgd.zero_grad()


def build(cls=AdapterTrainer):
    torch.manual_seed(0)
    return cls(), (torch.randn(16, 24), torch.randn(16, 24), "cz")


def build_fixed():
    return build(AdapterTrainerFixed)
