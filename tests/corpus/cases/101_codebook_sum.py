"""C101 (after transformers#24109, MusicGen decoder): one table per residual codebook, looked up and summed one by one."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C101",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [29],
    "fix": "one_offset_table",
    "auto_fix_safe": False,
    "why": "the tables can be one table read with per-codebook offsets, but merging them renames the parameters and breaks checkpoints",
    "hot_share_cpu": 0.95,
    "speedup_cpu": 20.56,
}


class CodecFrontEnd(nn.Module):
    def __init__(self, books=32, entries=96, width=24):
        super().__init__()
        self.width = width
        self.books = nn.ModuleList(nn.Embedding(entries, width) for _ in range(books))
        self.norm = nn.LayerNorm(width)

    def _sum_books(self, codes):
        total = torch.zeros(codes.shape[0], codes.shape[-1], self.width, device=codes.device)
        for q in range(len(self.books)):
            total += self.books[q](codes[:, q])  # HOT
        return total

    def forward(self, codes):
        return self.norm(self._sum_books(codes))


class CodecFrontEndFixed(nn.Module):
    def __init__(self, slow):
        super().__init__()
        self.joint = nn.Parameter(torch.cat([b.weight.detach() for b in slow.books]))
        starts = torch.arange(len(slow.books)) * slow.books[0].num_embeddings
        self.register_buffer("starts", starts.view(1, -1, 1), persistent=False)
        self.norm = nn.LayerNorm(slow.width)

    def forward(self, codes):
        return self.norm(F.embedding(codes + self.starts, self.joint).sum(1))


def build():
    torch.manual_seed(11)
    return CodecFrontEnd(), (torch.randint(96, (2, 32, 20)),)


def build_fixed():
    slow, inputs = build()
    return CodecFrontEndFixed(slow), inputs
