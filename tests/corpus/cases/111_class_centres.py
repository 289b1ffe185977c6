"""C111 (after prototypical-network repositories): each class centre is a boolean selection followed by a mean."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C111",
    "polarity": "positive",
    "kind": "class_loop",
    "hot_lines": [27, 28, 31],
    "fix": "one_hot_matmul_or_index_add",
    "auto_fix_safe": False,
    "why": "group sums by a one-hot product equal the means, but the groups are ragged and one inf or nan in a row would spread to all classes",
    "hot_share_cpu": 0.88,
    "speedup_cpu": 8.37,
}


class CentreMatcher(nn.Module):
    def __init__(self, ways=48, width=16):
        super().__init__()
        self.ways = ways
        self.body = nn.Linear(width, width)

    @staticmethod
    def _centre(feats, labels, way):
        members = feats[labels == way]  # HOT
        return members.mean(dim=0)  # HOT

    def centres(self, feats, labels):
        return torch.stack([self._centre(feats, labels, w) for w in range(self.ways)])  # HOT

    def forward(self, support, labels, query):
        hubs = self.centres(self.body(support), labels)
        return torch.einsum("qd,wd->qw", self.body(query), hubs)


class CentreMatcherFixed(CentreMatcher):
    def centres(self, feats, labels):
        member = F.one_hot(labels, self.ways).to(feats.dtype)
        return (member.t() @ feats) / member.sum(0).unsqueeze(-1)


def build():
    torch.manual_seed(21)
    labels = torch.arange(48).repeat(5)[torch.randperm(240)]
    return CentreMatcher(), (torch.randn(240, 16), labels, torch.randn(30, 16))


def build_fixed():
    slow, inputs = build()
    fast = CentreMatcherFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
