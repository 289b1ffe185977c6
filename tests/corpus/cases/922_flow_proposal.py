"""C922 (after mj-will/nessai#245 and #79): a normalising-flow proposal for a sampler runs under no_grad and leaves as numpy."""
import torch
from torch import nn

expected = {
    "case": "C922",
    "polarity": "positive",
    "kind": "no_grad_to_inference_mode",
    "hot_lines": [47, 48],
    "fix": "torch.inference_mode",
    "auto_fix_safe": True,
    "why": "only numpy arrays leave forward and nothing is cached; many tiny views per coupling, so a real gain",
    "hot_share_cpu": 0.13,
    "speedup_cpu": 1.15,
}


class AffineCoupling(nn.Module):
    def __init__(self, dims, flip):
        super().__init__()
        self.flip = flip
        self.log_scale = nn.Parameter(0.1 * torch.randn(dims // 2))
        self.shift = nn.Parameter(0.1 * torch.randn(dims // 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=-1)
        if self.flip:
            a, b = b, a
        log_s = self.log_scale * a.tanh()
        b = b * log_s.exp() + self.shift * a
        y = torch.cat((b, a) if self.flip else (a, b), dim=-1)
        return y, log_s.sum(-1)


class FlowProposal(nn.Module):
    def __init__(self, dims=8, n_blocks=16):
        super().__init__()
        self.blocks = nn.ModuleList(AffineCoupling(dims, i % 2 == 1) for i in range(n_blocks))

    def transform(self, x):
        log_j = x.new_zeros(x.shape[0])
        for block in self.blocks:
            x, lj = block(x)
            log_j += lj
        return x, log_j

    @torch.no_grad()  # HOT
    def forward(self, x):  # HOT
        z, log_j = self.transform(x)
        log_prob = -0.5 * z.square().sum(-1) + log_j
        return z.numpy().tolist(), log_prob.numpy().tolist()


class FlowProposalFixed(FlowProposal):
    @torch.inference_mode()
    def forward(self, x):
        return FlowProposal.forward.__wrapped__(self, x)


def build():
    torch.manual_seed(0)
    return FlowProposal().eval(), (torch.randn(4, 8),)


def build_fixed():
    slow, inputs = build()
    fast = FlowProposalFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
