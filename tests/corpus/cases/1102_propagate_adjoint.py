"""C1102: the transposed adjacency is copied again in every propagation step."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1102",
    "polarity": "positive",
    "kind": "contiguous_churn",
    "hot_lines": [30],
    "fix": "drop_contiguous",
    "auto_fix_safe": True,
    "why": "mm takes a transposed operand as it is, and adj is not written in the loop, so all ten copies are the same unneeded one",
    "hot_share_cpu": 0.97,
    "speedup_cpu": 3.03,
}


class SpreadLabels(nn.Module):
    def __init__(self, in_dim=64, classes=12, hops=10, alpha=0.1):
        super().__init__()
        self.lin = nn.Linear(in_dim, classes)
        self.hops, self.alpha = hops, alpha

    def forward(self, feats, adj):
        z = self.lin(feats)
        h = z
        k = 0
        while k < self.hops:
            h = (1 - self.alpha) * torch.mm(adj.t().contiguous(), h) + self.alpha * z  # HOT
            k += 1
        return F.log_softmax(h, dim=-1)


class SpreadLabelsFixed(SpreadLabels):
    def forward(self, feats, adj):
        z = self.lin(feats)
        h = z
        k = 0
        while k < self.hops:
            h = (1 - self.alpha) * torch.mm(adj.t(), h) + self.alpha * z
            k += 1
        return F.log_softmax(h, dim=-1)


def build():
    torch.manual_seed(0)
    adj = (torch.rand(600, 600) < 0.05).float()
    return SpreadLabels(), (torch.randn(600, 64), adj / adj.sum(0, keepdim=True).clamp(min=1))


def build_fixed():
    slow, inputs = build()
    fast = SpreadLabelsFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
