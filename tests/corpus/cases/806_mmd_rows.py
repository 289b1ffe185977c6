"""C806 (after mousecpn/MMD_AAE_PyTorch#4): pairwise squared distances for an RBF-kernel MMD filled row by row."""
import torch
from torch import nn

expected = {
    "case": "C806",
    "polarity": "positive",
    "kind": "pairwise_loop",
    "hot_lines": [21],
    "fix": "broadcast_difference",
    "auto_fix_safe": True,
    "why": "row i is a function of x[i] and y only; (x[:, None] - y) does the same subtraction for all rows at once",
    "hot_share_cpu": 0.84,
    "speedup_cpu": 9.85,
}


def compute_pairwise_distances(x, y):
    dist = torch.zeros(x.size(0), y.size(0))
    for i in range(x.size(0)):
        dist[i, :] = torch.sum(torch.square(x[i].expand(y.shape) - y), dim=1)  # HOT
    return dist


class DomainGap(nn.Module):
    def __init__(self, in_dim=40, code_dim=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(in_dim, 64), nn.ReLU(), nn.Linear(64, code_dim))
        self.register_buffer("sigmas", torch.tensor([1.0, 5.0, 10.0]))

    def rbf_kernel(self, x, y):
        beta = 1.0 / (2.0 * self.sigmas.unsqueeze(1))
        dist = compute_pairwise_distances(x, y)
        dot = -torch.matmul(beta, dist.reshape(1, -1))
        return torch.mean(torch.exp(dot))

    def forward(self, source, target):
        s, t = self.encoder(source), self.encoder(target)
        return self.rbf_kernel(s, s) + self.rbf_kernel(t, t) - 2 * self.rbf_kernel(s, t)


class DomainGapFixed(DomainGap):
    def rbf_kernel(self, x, y):
        beta = 1.0 / (2.0 * self.sigmas.unsqueeze(1))
        dist = (x.unsqueeze(1) - y).square().sum(dim=-1)
        dot = -torch.matmul(beta, dist.reshape(1, -1))
        return torch.mean(torch.exp(dot))


def build():
    torch.manual_seed(0)
    return DomainGap(), (torch.randn(48, 40), torch.randn(40, 40) + 0.5)


def build_fixed():
    slow, inputs = build()
    fast = DomainGapFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
