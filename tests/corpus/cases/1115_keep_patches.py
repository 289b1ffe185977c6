"""C1115: the index of a gather is copied over all channels with repeat."""
import torch
from torch import nn

expected = {
    "case": "C1115",
    "polarity": "positive",
    "kind": "repeat_to_expand",
    "hot_lines": [29],
    "fix": "expand",
    "auto_fix_safe": True,
    "why": "gather only reads its index, forward and backward, so one column seen through stride 0 picks the same elements",
    "hot_share_cpu": 0.74,
    "speedup_cpu": 1.24,
}


class PatchKeeper(nn.Module):
    def __init__(self, dim=192, keep=0.75):
        super().__init__()
        self.pos = nn.Parameter(torch.randn(1, 196, dim) * 0.02)
        self.keep = keep

    def forward(self, x, noise):
        x = x + self.pos
        N, L, D = x.shape
        len_keep = int(L * self.keep)
        ids_keep = torch.argsort(noise, dim=1)[:, :len_keep]
        return torch.gather(x, dim=1, index=ids_keep.unsqueeze(-1).repeat(1, 1, D))  # HOT


class PatchKeeperFixed(PatchKeeper):
    def forward(self, x, noise):
        x = x + self.pos
        N, L, D = x.shape
        len_keep = int(L * self.keep)
        ids_keep = torch.argsort(noise, dim=1)[:, :len_keep]
        return torch.gather(x, dim=1, index=ids_keep.unsqueeze(-1).expand(-1, -1, D))


def build():
    torch.manual_seed(0)
    return PatchKeeper(), (torch.randn(16, 196, 192), torch.rand(16, 196))


def build_fixed():
    slow, inputs = build()
    fast = PatchKeeperFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
