"""C411 (after model-based RL ensembles, PETS kind): inside a planning rollout every member of the ensemble is called on the same state."""
import torch
from torch import nn
import torch.nn.functional as F

expected = {
    "case": "C411",
    "polarity": "positive",
    "kind": "module_list_loop_same_input",
    "hot_lines": [27, 28, 29, 38],
    "fix": "stack_weights_and_bmm",
    "auto_fix_safe": False,
    "why": "members share architecture and input (the horizon loop around them does carry); stacking weights bypasses hooks and later surgery",
    "hot_share_cpu": 0.92,
    "speedup_cpu": 3.86,
}


class Member(nn.Module):
    def __init__(self, n_in, n_out, hidden):
        super().__init__()
        self.enter = nn.Linear(n_in, hidden)
        self.inner = nn.Linear(hidden, hidden)
        self.leave = nn.Linear(hidden, 2 * n_out)

    def forward(self, x):
        x = F.silu(self.inner(F.silu(self.enter(x))))  # HOT
        mean, raw = self.leave(x).chunk(2, dim=-1)  # HOT
        return mean, -4.0 + F.softplus(raw + 4.0)  # HOT


class Dynamics(nn.Module):
    def __init__(self, obs=11, act=3, size=20, hidden=24):
        super().__init__()
        self.members = nn.ModuleDict({f"member_{i}": Member(obs + act, obs, hidden) for i in range(size)})

    def everyone(self, x):
        means, logvars = zip(*[m(x) for m in self.members.values()])  # HOT
        return torch.stack(means), torch.stack(logvars)

    def forward(self, obs, plan):
        doubt = torch.zeros_like(obs)
        for act in plan.unbind(dim=1):
            mean, logvar = self.everyone(torch.cat((obs, act), dim=-1))
            obs, doubt = obs + mean.mean(dim=0), doubt + logvar.exp().mean(dim=0) + mean.var(dim=0)
        return obs, doubt


class DynamicsFixed(Dynamics):
    def _layer(self, name, x):
        layers = [getattr(m, name) for m in self.members.values()]
        weight = torch.stack([l.weight for l in layers]).transpose(1, 2)
        return torch.baddbmm(torch.stack([l.bias for l in layers])[:, None], x, weight)

    def everyone(self, x):
        x = F.silu(self._layer("enter", x.expand(len(self.members), -1, -1)))
        mean, raw = self._layer("leave", F.silu(self._layer("inner", x))).chunk(2, dim=-1)
        return mean, -4.0 + F.softplus(raw + 4.0)


def build():
    torch.manual_seed(0)
    return Dynamics(), (torch.randn(6, 11), torch.rand(6, 5, 3) * 2 - 1)


def build_fixed():
    slow, inputs = build()
    fast = DynamicsFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
