"""C213 (after torchtitan#3275, diffusers#11030, vllm#1536): repeat_interleave with tensor counts and no output_size in each hop."""
import torch
from torch import nn

expected = {
    "case": "C213",
    "polarity": "positive",
    "kind": "implicit_host_sync",
    "hot_lines": [25],
    "fix": "output_size=dst.numel()",
    "auto_fix_safe": True,
    "why": "the counts are a histogram of dst, so they always sum to dst.numel(), a number the host knows; without it every hop waits for the device",
    "gpu_only": True,
    "hot_share_cpu": 0.15,
    "speedup_cpu": 1.02,
}


class EdgeFanout(nn.Module):
    def __init__(self, width=32, hops=3):
        super().__init__()
        self.send = nn.ModuleList(nn.Linear(width, width) for _ in range(hops))

    def expand(self, nodes, fan, dst):
        return torch.repeat_interleave(nodes, fan, dim=0)  # HOT

    def forward(self, nodes, src, dst):
        """Edges arrive sorted by their target."""
        fan = dst.new_zeros(nodes.size(0)).scatter_add_(0, dst, torch.ones_like(dst))
        for lin in self.send:
            target = self.expand(nodes, fan, dst)
            source = lin(nodes).index_select(0, src)
            gate = torch.sigmoid((target * source).sum(dim=-1, keepdim=True))
            nodes = nodes.index_add(0, dst, gate * source, alpha=0.1)
        return nodes


class EdgeFanoutFixed(EdgeFanout):
    def expand(self, nodes, fan, dst):
        return torch.repeat_interleave(nodes, fan, dim=0, output_size=dst.numel())


def build():
    torch.manual_seed(0)
    n, e = 120, 900
    dst = torch.randint(0, n, (e,)).sort().values
    return EdgeFanout(), (torch.randn(n, 32), torch.randint(0, n, (e,)), dst)


def build_fixed():
    slow, inputs = build()
    fast = EdgeFanoutFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
