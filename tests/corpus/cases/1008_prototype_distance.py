"""C1008: squared distance to every class prototype, one column per turn."""
import torch
from torch import nn

expected = {
    "case": "C1008",
    "polarity": "positive",
    "kind": "class_loop",
    "hot_lines": [28, 29],
    "fix": "broadcast_over_prototypes",
    "auto_fix_safe": True,
    "why": "column c reads only prototype c and every column is written once; (x[:, None] - proto) does the same subtraction and the same sum",
    "hot_share_cpu": 0.92,
    "speedup_cpu": 26.30,
}


class ProtoHead(nn.Module):
    def __init__(self, n_way=120, width=16):
        super().__init__()
        self.enc = nn.Linear(24, width)
        self.proto = nn.Parameter(torch.randn(n_way, width))

    def forward(self, query):
        z = self.enc(query)
        dist = z.new_zeros(z.shape[0], self.proto.shape[0])
        for c, centre in enumerate(self.proto):
            diff = z - centre  # HOT
            dist[:, c] = (diff ** 2).sum(axis=-1)  # HOT
        return nn.functional.log_softmax(-dist, dim=1)


class ProtoHeadFixed(ProtoHead):
    def forward(self, query):
        z = self.enc(query)
        diff = z[:, None] - self.proto
        dist = (diff ** 2).sum(axis=-1)
        return nn.functional.log_softmax(-dist, dim=1)


def build():
    torch.manual_seed(0)
    return ProtoHead(), (torch.randn(30, 24),)


def build_fixed():
    slow, inputs = build()
    fast = ProtoHeadFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
