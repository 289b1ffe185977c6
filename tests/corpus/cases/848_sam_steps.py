"""C848 (after davda54/sam sam.py, pytorch#91846): the climb and descend steps of SAM touch the parameters one small tensor at a time."""
import torch
from torch import nn

expected = {
    "case": "C848",
    "polarity": "positive",
    "kind": "optimizer_param_loop",
    "hot_lines": [26, 29, 30, 35],
    "fix": "torch._foreach_norm / _foreach_mul / _foreach_add_ / _foreach_sub_",
    "auto_fix_safe": False,
    "why": "needs lists of one dtype and device and a gradient on every parameter; a rewrite of the optimizer for a human to accept",
    "hot_share_cpu": 0.34,
    "speedup_cpu": 1.11,
}


class SamStep(nn.Module):
    def __init__(self, dim=32, depth=30, classes=6, rho=0.05):
        super().__init__()
        self.net = nn.Sequential(*(nn.LayerNorm(dim) for _ in range(depth)), nn.Linear(dim, classes))
        self.base_optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, foreach=True)
        self.rho = rho

    def first_step(self, params):
        norm = torch.stack([p.grad.norm(p=2) for p in params]).norm(p=2)  # HOT
        e_ws, scale = [], self.rho / (norm + 1e-12)
        for p in params:
            e_ws.append(p.grad * scale)  # HOT
            p.data.add_(e_ws[-1])  # HOT
        return e_ws

    def second_step(self, params, e_ws):
        for p, e_w in zip(params, e_ws):
            p.data.sub_(e_w)  # HOT

    def forward(self, x, y):
        params = list(self.net.parameters())
        self.base_optimizer.zero_grad()
        nn.functional.cross_entropy(self.net(x), y).backward()
        e_ws = self.first_step(params)
        self.base_optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        self.second_step(params, e_ws)
        self.base_optimizer.step()
        return loss.detach()


class SamStepFixed(SamStep):
    def first_step(self, params):
        grads = [p.grad for p in params]
        norm = torch.stack(torch._foreach_norm(grads)).norm(p=2)
        e_ws = torch._foreach_mul(grads, self.rho / (norm + 1e-12))
        torch._foreach_add_([p.data for p in params], e_ws)
        return e_ws

    def second_step(self, params, e_ws):
        torch._foreach_sub_([p.data for p in params], e_ws)


def build():
    torch.manual_seed(0)
    return SamStep(), (torch.randn(4, 32), torch.tensor([0, 5, 2, 3]))


def build_fixed():
    fast = SamStepFixed()
    fast.load_state_dict(build()[0].state_dict())
    return fast, build()[1]
