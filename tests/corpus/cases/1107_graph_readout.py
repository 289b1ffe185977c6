"""C1107: repeat_interleave without output_size waits for the device to learn its size."""
import torch
from torch import Tensor, nn

expected = {
    "case": "C1107",
    "polarity": "positive",
    "kind": "implicit_host_sync",
    "hot_lines": [28],
    "fix": "repeat_interleave(output_size=...)",
    "auto_fix_safe": False,
    "why": "every node has a row in nodes, so the size is nodes.size(0); only the caller can promise that the counts add up to it",
    "gpu_only": True,
    "hot_share_cpu": 0.04,
    "speedup_cpu": 1.04,
}


class GraphReadout(nn.Module):
    def __init__(self, in_dim: int = 32, width: int = 64, out_dim: int = 4) -> None:
        super().__init__()
        self.embed = nn.Linear(in_dim, width)
        self.readout = nn.Linear(width, out_dim)

    def forward(self, nodes: Tensor, counts: Tensor) -> Tensor:
        hidden = self.embed(nodes).relu()
        graphs = torch.arange(counts.numel(), device=counts.device)
        owner = torch.repeat_interleave(graphs, repeats=counts)  # HOT
        pooled = hidden.new_zeros(counts.numel(), hidden.size(-1))
        pooled = pooled.index_add(0, owner, hidden)
        return self.readout(pooled / counts.unsqueeze(-1))


class GraphReadoutFixed(GraphReadout):
    def forward(self, nodes: Tensor, counts: Tensor) -> Tensor:
        hidden = self.embed(nodes).relu()
        graphs = torch.arange(counts.numel(), device=counts.device)
        owner = torch.repeat_interleave(graphs, repeats=counts, output_size=nodes.size(0))
        pooled = hidden.new_zeros(counts.numel(), hidden.size(-1))
        pooled = pooled.index_add(0, owner, hidden)
        return self.readout(pooled / counts.unsqueeze(-1))


def build():
    torch.manual_seed(0)
    counts = torch.randint(5, 40, (512,))
    return GraphReadout(), (torch.randn(int(counts.sum()), 32), counts)


def build_fixed():
    slow, inputs = build()
    fast = GraphReadoutFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
