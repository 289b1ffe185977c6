"""C454 negative (after neural audio codecs with residual quantizers): codebooks called in turn on one name whose tensor is peeled in place."""
import torch
from torch import nn

expected = {
    "case": "C454",
    "polarity": "negative",
    "kind": "module_list_loop_same_input",
    "hot_lines": [27, 28, 30, 42],
    "must_not": "flag the codebooks as modules on the same input or offer a stacked call",
    "auto_fix_safe": False,
    "why": "each codebook subtracts its code from the tensor that the next one reads, and moves its own running usage while doing so",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.87,
    "speedup_cpu": None,
}


class Codebook(nn.Module):
    def __init__(self, size, dim, decay=0.95):
        super().__init__()
        self.decay = decay
        self.codes = nn.Parameter(torch.randn(size, dim))
        self.register_buffer("usage", torch.ones(size))

    def forward(self, frames):
        far = torch.cdist(frames, self.codes) - 0.01 * self.usage.rsqrt()  # LOOKS-HOT
        pick = far.argmin(dim=-1)  # LOOKS-HOT
        self.usage.lerp_(torch.bincount(pick, minlength=self.usage.numel()).float() + 1.0, 1 - self.decay)
        frames.sub_(self.codes[pick])  # LOOKS-HOT
        return pick


class ResidualQuantizer(nn.Module):
    def __init__(self, books=16, size=96, dim=16):
        super().__init__()
        self.books = nn.ModuleList(Codebook(size, dim) for _ in range(books))

    @torch.no_grad()
    def forward(self, latent):
        frames = latent.flatten(0, 1).clone()
        codes = torch.stack([book(frames) for book in self.books], dim=-1)  # LOOKS-HOT
        return codes.unflatten(0, latent.shape[:2]), frames.square().mean()


class ResidualQuantizerNaive(ResidualQuantizer):
    @torch.no_grad()
    def forward(self, latent):
        frames = latent.flatten(0, 1)
        table = torch.stack([book.codes for book in self.books])
        usage = torch.stack([book.usage for book in self.books])
        pick = (torch.cdist(frames, table) - 0.01 * usage.rsqrt()[:, None]).argmin(dim=-1)
        left = frames - torch.stack([t[p] for t, p in zip(table, pick)]).sum(dim=0)
        return pick.t().unflatten(0, latent.shape[:2]), left.square().mean()


def build():
    torch.manual_seed(0)
    return ResidualQuantizer(), (torch.randn(2, 96, 16),)


def build_naive_fix():
    slow, inputs = build()
    naive = ResidualQuantizerNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
