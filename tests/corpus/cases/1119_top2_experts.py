"""C1119: a top-2 sparse layer asks for each expert which tokens it got."""
import torch
import torch.nn.functional as F
from torch import Tensor, nn

expected = {
    "case": "C1119",
    "polarity": "positive",
    "kind": "moe_expert_loop",
    "hot_lines": [36, 37, 38],
    "fix": "sort_by_expert_and_split",
    "auto_fix_safe": False,
    "why": "one argsort and one bincount replace a nonzero and two gathers per expert; the order of the sums changes, so a human should look",
    "hot_share_cpu": 0.92,
    "speedup_cpu": 3.24,
}


class SparseTop2(nn.Module):
    def __init__(self, dim: int = 32, experts: int = 48) -> None:
        super().__init__()
        self.num_experts = experts
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList([nn.Linear(dim, dim) for _ in range(experts)])

    def route(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        weight, chosen = torch.topk(F.softmax(self.router(flat), dim=-1), k=2, dim=-1)
        return weight / weight.sum(dim=-1, keepdim=True), chosen

    def forward(self, hidden: Tensor) -> Tensor:
        flat = hidden.reshape(-1, hidden.shape[-1])
        weight, chosen = self.route(flat)
        final = torch.zeros_like(flat)
        hits = F.one_hot(chosen, num_classes=self.num_experts).permute(2, 1, 0)
        for idx in range(self.num_experts):
            slot, row = torch.where(hits[idx])  # HOT
            part = F.silu(self.experts[idx](flat[row])) * weight[row, slot, None]  # HOT
            final.index_add_(0, row, part)  # HOT
        return final.view_as(hidden)


class SparseTop2Fixed(SparseTop2):
    def forward(self, hidden: Tensor) -> Tensor:
        flat = hidden.reshape(-1, hidden.shape[-1])
        weight, chosen = self.route(flat)
        order = chosen.flatten().argsort(stable=True)
        row = order // 2
        sizes = chosen.flatten().bincount(minlength=self.num_experts).tolist()
        groups = flat[row].split(sizes)
        part = F.silu(torch.cat([f(g) for f, g in zip(self.experts, groups)]))
        return torch.zeros_like(flat).index_add(0, row, part * weight.flatten()[order, None]).view_as(hidden)


def build():
    torch.manual_seed(0)
    return SparseTop2(), (torch.randn(2, 128, 32),)


def build_fixed():
    slow, inputs = build()
    fast = SparseTop2Fixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
