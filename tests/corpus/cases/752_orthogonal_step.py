"""D752 negative (kind of project: optimizer that orthogonalises the update of matrices, after the idea of Muon): a loop with its own work per parameter."""
import torch
from torch import nn

expected = {
    "case": "D752",
    "polarity": "negative",
    "kind": "optimizer_param_loop",
    "hot_lines": [39, 41],
    "must_not": "flag optimizer_param_loop",
    "auto_fix_safe": False,
    "why": "few parameters, each with matmuls of its own shape; vectors take another path: multi-tensor calls save nothing",
    "naive_fix_outcome": "equal_no_gain",
    "hot_share_cpu": 0.91,
    "speedup_cpu": 0.99,
}


def orthogonalise(g, rounds=4):
    wide = g.size(0) > g.size(1)
    x = g.t() if wide else g
    x = x / (x.norm() + 1e-7)
    for _ in range(rounds):
        a = x @ x.t()
        x = 3.4445 * x + (2.0315 * a @ a - 4.775 * a) @ x
    return x.t() if wide else x


class Step(nn.Module):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(96, 224), nn.Tanh(), nn.Linear(224, 192), nn.Tanh(), nn.Linear(192, 96))
        self.lr = lr

    @torch.no_grad()
    def update(self):
        for p in self.net.parameters():
            if p.ndim == 2:
                p.add_(orthogonalise(p.grad), alpha=-self.lr * max(1, p.size(0) / p.size(1)) ** 0.5)  # LOOKS-HOT
            else:
                p.add_(p.grad.sign(), alpha=-0.1 * self.lr)  # LOOKS-HOT

    def forward(self, x, y):
        self.net.zero_grad()
        loss = (self.net(x) - y).square().mean()
        loss.backward()
        self.update()
        return loss.detach()


class StepNaive(Step):
    @torch.no_grad()
    def update(self):
        matrices = [p for p in self.net.parameters() if p.ndim == 2]
        vectors = [p for p in self.net.parameters() if p.ndim != 2]
        moves = [orthogonalise(p.grad) for p in matrices]
        torch._foreach_mul_(moves, [max(1, p.size(0) / p.size(1)) ** 0.5 for p in matrices])
        torch._foreach_add_(matrices, moves, alpha=-self.lr)
        torch._foreach_add_(vectors, [p.grad.sign() for p in vectors], alpha=-0.1 * self.lr)


def build(cls=Step):
    torch.manual_seed(0)
    return cls(), (torch.randn(32, 96), torch.randn(32, 96))


def build_naive_fix():
    return build(StepNaive)
