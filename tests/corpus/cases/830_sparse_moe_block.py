"""C830 (after huggingface/transformers#38133, Qwen3MoeSparseMoeBlock): a torch.where, a gather and an index_add_ per expert."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C830",
    "polarity": "positive",
    "kind": "moe_expert_loop",
    "hot_lines": [37, 39, 40, 41, 42],
    "fix": "sort_by_expert_and_split",
    "auto_fix_safe": False,
    "why": "sorting the routed pairs once removes the per-expert search, but it is a restructuring (and needs stacked weights for a grouped matmul)",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 1.97,
}


class SparseMoeBlock(nn.Module):
    def __init__(self, hidden=32, inter=32, num_experts=32, top_k=2):
        super().__init__()
        self.num_experts, self.top_k = num_experts, top_k
        self.gate = nn.Linear(hidden, num_experts, bias=False)
        self.experts = nn.ModuleList(
            [nn.Sequential(nn.Linear(hidden, inter), nn.SiLU(), nn.Linear(inter, hidden)) for _ in range(num_experts)]
        )

    def route(self, hidden_states):
        routing_weights = F.softmax(self.gate(hidden_states), dim=1, dtype=torch.float)
        routing_weights, selected_experts = torch.topk(routing_weights, self.top_k, dim=-1)
        return routing_weights / routing_weights.sum(dim=-1, keepdim=True), selected_experts

    def dispatch(self, hidden_states, routing_weights, selected_experts):
        final_hidden_states = torch.zeros_like(hidden_states)
        expert_mask = F.one_hot(selected_experts, num_classes=self.num_experts).permute(2, 1, 0)
        # Loop over all available experts in the model and perform the computation on each expert
        for expert_idx in range(self.num_experts):  # HOT
            expert_layer = self.experts[expert_idx]
            idx, top_x = torch.where(expert_mask[expert_idx])  # HOT
            current_state = hidden_states[None, top_x].reshape(-1, hidden_states.shape[-1])  # HOT
            current_hidden = expert_layer(current_state) * routing_weights[top_x, idx, None]  # HOT
            final_hidden_states.index_add_(0, top_x, current_hidden)  # HOT
        return final_hidden_states

    def forward(self, hidden_states):
        b, n, d = hidden_states.shape
        hidden_states = hidden_states.view(-1, d)
        out = self.dispatch(hidden_states, *self.route(hidden_states))
        return out.view(b, n, d)


class SparseMoeBlockFixed(SparseMoeBlock):
    def dispatch(self, x, weights, picks):
        order = picks.flatten().argsort()
        sizes = picks.flatten().bincount(minlength=self.num_experts).tolist()
        groups = x[order // self.top_k].split(sizes)
        y = torch.cat([e(g) for e, g in zip(self.experts, groups)])
        y = y * weights.flatten()[order].unsqueeze(-1)
        return torch.zeros_like(x).index_add_(0, order // self.top_k, y)


def build(block=SparseMoeBlock):
    torch.manual_seed(0)
    return block(), (torch.randn(2, 24, 32),)


def build_fixed():
    return build(SparseMoeBlockFixed)
