"""C919 (after QuarticCat/detypify#19, on the dense graph convolution of monkeydc56/datasets tools/gcn.py): adjacency cast in each layer."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C919",
    "polarity": "positive",
    "kind": "repeated_dtype_cast",
    "hot_lines": [29],
    "fix": "cast_once_before_the_layers",
    "auto_fix_safe": False,
    "why": "all layers get the same integer adjacency and each converts it; the one cast belongs into the caller (or the loader), so explain it",
    "hot_share_cpu": 0.22,
    "speedup_cpu": 1.19,
}


class GraphConvolution(nn.Module):
    """Similar to https://arxiv.org/abs/1609.02907, on a dense batch."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(in_features, out_features) / in_features**0.5)
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, text, adj):
        hidden = torch.matmul(text, self.weight)
        adj = adj.float()  # HOT
        denom = torch.sum(adj, dim=2, keepdim=True) + 1
        output = torch.matmul(adj, hidden) / denom
        return output + self.bias


class ASGCN(nn.Module):
    def __init__(self, hidden_dim=24, polarities=3):
        super().__init__()
        self.gc1 = GraphConvolution(hidden_dim, hidden_dim)
        self.gc2 = GraphConvolution(hidden_dim, hidden_dim)
        self.gc3 = GraphConvolution(hidden_dim, hidden_dim)
        self.fc = nn.Linear(hidden_dim, polarities)

    def forward(self, text_out, adj):
        x = F.relu(self.gc1(text_out, adj))
        x = F.relu(self.gc2(x, adj))
        x = F.relu(self.gc3(x, adj))
        return self.fc(x.max(dim=1).values)


class ASGCNFixed(ASGCN):
    def forward(self, text_out, adj):
        return super().forward(text_out, adj.float())  # .float() of a float tensor is the tensor itself


def build():
    torch.manual_seed(0)
    adj = (torch.rand(16, 160, 160) < 0.05).long()
    return ASGCN(), (torch.randn(16, 160, 24), adj)


def build_fixed():
    slow, inputs = build()
    fast = ASGCNFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
