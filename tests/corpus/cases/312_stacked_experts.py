"""C312 (after transformers#39150, rxlm#8, DeepSeek-V3#942): top-2 experts in stacked weights, each with where + index_add_."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C312",
    "polarity": "positive",
    "kind": "moe_expert_loop",
    "hot_lines": [28, 33, 36],
    "fix": "sort_by_expert_and_split",
    "auto_fix_safe": False,
    "why": "one sort replaces a search and a scatter per expert; a restructuring, and the order of the sums changes",
    "hot_share_cpu": 0.85,
    "speedup_cpu": 2.92,
}


class StackedExperts(nn.Module):
    def __init__(self, width=32, hidden=48, experts=64, top=2):
        super().__init__()
        self.top = top
        self.router = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, hidden) / width**0.5)
        self.down = nn.Parameter(torch.randn(experts, hidden, width) / hidden**0.5)

    def ffn(self, e, rows):
        return F.silu(rows @ self.up[e]) @ self.down[e]  # HOT

    def dispatch(self, x, gate, pick):
        out = torch.zeros_like(x)
        for e in range(self.router.out_features):
            token, slot = torch.where(pick == e)  # HOT
            if token.numel() == 0:
                continue
            out.index_add_(0, token, self.ffn(e, x[token]) * gate[token, slot, None])  # HOT
        return out

    def forward(self, x):
        flat = x.flatten(0, 1)
        gate, pick = self.router(flat).softmax(dim=-1).topk(self.top, dim=-1)
        return self.dispatch(flat, gate / gate.sum(dim=-1, keepdim=True), pick).view_as(x)


class StackedExpertsFixed(StackedExperts):
    def dispatch(self, x, gate, pick):
        order = pick.flatten().argsort()
        token = order // self.top
        sizes = pick.flatten().bincount(minlength=self.router.out_features).tolist()
        groups = x[token].split(sizes)
        done = torch.cat([self.ffn(e, rows) for e, rows in enumerate(groups) if rows.size(0)])
        return torch.zeros_like(x).index_add(0, token, done * gate.flatten()[order, None])


def build():
    torch.manual_seed(0)
    return StackedExperts(), (torch.randn(4, 40, 32),)


def build_fixed():
    slow, inputs = build()
    fast = StackedExpertsFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
