"""C614 (after sparsely gated adapters in multilingual speech encoders): every frame goes to two of many small bottlenecks."""
import torch
from torch import nn

expected = {
    "case": "C614",
    "polarity": "positive",
    "kind": "moe_expert_loop",
    "hot_lines": [43, 44, 45],
    "fix": "gather the stacked weights (or sort and grouped matmul)",
    "auto_fix_safe": False,
    "why": "the batched form needs the adapters' weights stacked, and how to batch depends on their number and size",
    "hot_share_cpu": 0.54,
    "speedup_cpu": 4.98,
}


class Adapter(nn.Module):
    def __init__(self, width, rank):
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)

    def forward(self, x):
        return self.up(torch.tanh(self.down(x)))


class DialectAdapters(nn.Module):
    def __init__(self, width=48, rank=4, adapters=40, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(width, adapters)
        self.adapters = nn.ModuleList(Adapter(width, rank) for _ in range(adapters))

    def route(self, frames):
        share, choice = self.gate(frames).topk(self.k, dim=-1)
        return share.softmax(dim=-1), choice

    def forward(self, frames):
        share, choice = self.route(frames)
        out = frames.clone()
        for a in torch.unique(choice).tolist():
            row, rank = torch.where(choice == a)  # HOT
            y = self.adapters[a](frames[row])  # HOT
            out.index_add_(0, row, share[row, rank].unsqueeze(1) * y)  # HOT
        return out


class DialectAdaptersFixed(DialectAdapters):
    def forward(self, frames):
        share, choice = self.route(frames)
        down = torch.stack([a.down.weight for a in self.adapters])
        up = torch.stack([a.up.weight for a in self.adapters])
        hidden = torch.tanh(torch.einsum("nd,nkrd->nkr", frames, down[choice]))
        return frames + torch.einsum("nk,nkr,nkdr->nd", share, hidden, up[choice])


def build():
    torch.manual_seed(0)
    return DialectAdapters(), (torch.randn(96, 48),)


def build_fixed():
    slow, inputs = build()
    fast = DialectAdaptersFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
