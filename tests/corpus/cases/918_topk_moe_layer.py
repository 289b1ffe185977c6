"""C918 (after edadaltocg/research research/nn/layers/moe.py): torch.where over the top-2 table and a scatter-add per expert."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C918",
    "polarity": "positive",
    "kind": "moe_expert_loop",
    "hot_lines": [41, 42, 43, 44],
    "fix": "sort_by_expert_and_split",
    "auto_fix_safe": False,
    "why": "one sort of the flat (token, slot) table replaces a nonzero, two gathers and a scatter per expert; a restructuring to accept by hand",
    "hot_share_cpu": 0.84,
    "speedup_cpu": 2.08,
}


class FeedForward(nn.Module):
    def __init__(self, dim, hidden_dim):
        super().__init__()
        self.w1 = nn.Linear(dim, hidden_dim, bias=False)
        self.w2 = nn.Linear(hidden_dim, dim, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)))


class MoELayer(nn.Module):
    def __init__(self, dim=32, hidden_dim=32, num_experts=48, num_experts_per_tok=2):
        super().__init__()
        self.experts = nn.ModuleList(FeedForward(dim, hidden_dim) for _ in range(num_experts))
        self.gate = nn.Linear(dim, num_experts, bias=False)
        self.num_experts_per_tok = num_experts_per_tok

    def forward(self, inputs):
        weights, selected_experts = torch.topk(self.gate(inputs), self.num_experts_per_tok)
        weights = F.softmax(weights, dim=1, dtype=torch.float).to(inputs.dtype)
        results = torch.zeros_like(inputs)
        for i, expert in enumerate(self.experts):
            batch_idx, nth_expert = torch.where(selected_experts == i)  # HOT
            results[batch_idx] += weights[batch_idx, nth_expert, None] * expert(  # HOT
                inputs[batch_idx]  # HOT
            )  # HOT
        return results


class MoELayerFixed(MoELayer):
    def forward(self, inputs):
        weights, picked = torch.topk(self.gate(inputs), self.num_experts_per_tok)
        weights = F.softmax(weights, dim=1, dtype=torch.float).to(inputs.dtype)
        order = picked.flatten().argsort()
        rows = order // self.num_experts_per_tok
        groups = inputs[rows].split(picked.flatten().bincount(minlength=len(self.experts)).tolist())
        done = torch.cat([f(g) for f, g in zip(self.experts, groups) if g.size(0)])
        return torch.zeros_like(inputs).index_add(0, rows, done * weights.flatten()[order, None])


def build():
    torch.manual_seed(0)
    return MoELayer(), (torch.randn(192, 32),)


def build_fixed():
    slow, inputs = build()
    fast = MoELayerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
