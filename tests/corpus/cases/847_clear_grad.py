"""C847 (after khoadoan106/backdoor_attacks utils/dnn.py, ultralytics#22351): a clear_grad helper that walks all parameters each step."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C847",
    "polarity": "positive",
    "kind": "zero_grad_loop",
    "hot_lines": [22, 23],
    "fix": "zero_grad(set_to_none=True)",
    "auto_fix_safe": True,
    "why": "every table gets a gradient in each step and nobody looks at .grad before backward(); None also saves the add into zeros",
    "hot_share_cpu": 0.05,
    "speedup_cpu": 1.25,
}


def clear_grad(model):
    for p in model.parameters():
        if p.grad is not None:
            p.grad.detach_()  # HOT
            p.grad.zero_()  # HOT


class BiasedMF(nn.Module):
    def __init__(self, users=6000, items=4000, dim=32):
        super().__init__()
        self.user = nn.Embedding(users, dim)
        self.item = nn.Embedding(items, dim)
        self.user_bias = nn.Embedding(users, 1)
        self.item_bias = nn.Embedding(items, 1)

    def forward(self, u, i):
        dot = (self.user(u) * self.item(i)).sum(dim=1)
        return dot + self.user_bias(u).squeeze(1) + self.item_bias(i).squeeze(1)


class RatingStep(nn.Module):
    def __init__(self, lr=0.05):
        super().__init__()
        self.mf = BiasedMF()
        self.optimizer = torch.optim.SGD(self.mf.parameters(), lr=lr)

    def clear(self):
        clear_grad(self.mf)

    def forward(self, u, i, rating):
        self.clear()
        loss = F.mse_loss(self.mf(u, i), rating)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


class RatingStepFixed(RatingStep):
    def clear(self):
        self.mf.zero_grad(set_to_none=True)


def build():
    torch.manual_seed(0)
    return RatingStep(), (torch.randint(0, 6000, (64,)), torch.randint(0, 4000, (64,)), torch.rand(64) * 5)


def build_fixed():
    slow, inputs = build()
    fast = RatingStepFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
