"""C314 (after pytorch#91846, pytorch#39988): the global gradient norm and the rescaling written as loops over parameters."""
import torch
from torch import nn

expected = {
    "case": "C314",
    "polarity": "positive",
    "kind": "optimizer_param_loop",
    "hot_lines": [29, 32],
    "fix": "torch.nn.utils.clip_grad_norm_",
    "auto_fix_safe": False,
    "why": "same formula with fused list kernels; needs gradients of one device and dtype, and returns the norm in another form",
    "hot_share_cpu": 0.36,
    "speedup_cpu": 1.41,
}


class ClippedTrainer(nn.Module):
    def __init__(self, width=12, depth=64, limit=0.05):
        super().__init__()
        self.limit = limit
        self.scales = nn.ParameterList(0.1 * torch.randn(width) for _ in range(depth))
        self.shifts = nn.ParameterList(0.1 * torch.randn(width) for _ in range(depth))
        self.opt = torch.optim.SGD(self.parameters(), lr=0.01, foreach=True)

    def clip(self):
        total = torch.zeros(())
        for _, p in self.named_parameters():
            total = total + torch.linalg.vector_norm(p.grad) ** 2  # HOT
        factor = (self.limit / (total.sqrt() + 1e-6)).clamp(max=1.0)
        for p in self.parameters():
            p.grad.detach().mul_(factor)  # HOT

    def forward(self, x, goal):
        rise = torch.linspace(0.5, 1.5, len(self.scales)).unsqueeze(1)
        groups = (torch.cat(tuple(g)).view(len(g), -1) for g in (self.scales, self.shifts))
        scale, shift = ((rows * rise).sum(dim=0) for rows in groups)
        loss = (torch.addcmul(shift, x, scale).tanh() - goal).square().mean()
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        self.clip()
        self.opt.step()
        return loss.detach()


class ClippedTrainerFixed(ClippedTrainer):
    def clip(self):
        nn.utils.clip_grad_norm_(self.parameters(), self.limit, foreach=True)


def build():
    torch.manual_seed(0)
    return ClippedTrainer(), (torch.randn(8, 12), torch.randn(8, 12))


def build_fixed():
    slow, inputs = build()
    fast = ClippedTrainerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
