"""C851 negative (after lucidrains/vector-quantize-pytorch residual_vq.py): a look-up per codebook, each for what the last one left over."""
import torch
from torch import nn

expected = {
    "case": "C851",
    "polarity": "negative",
    "kind": "embedding_loop",
    "hot_lines": [34],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "loop-carried: the ids of codebook k come from the residual after codebook k-1, so the look-ups cannot be done at once",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.16,
    "speedup_cpu": None,
}


class ResidualVQ(nn.Module):
    def __init__(self, dim=24, num_quantizers=8, codebook_size=64):
        super().__init__()
        self.layers = nn.ModuleList([nn.Embedding(codebook_size, dim) for _ in range(num_quantizers)])
        self.project_out = nn.Linear(dim, dim)

    def nearest(self, x, codebook):
        return torch.cdist(x, codebook.weight).argmin(dim=-1)

    def forward(self, x):
        quantized_out = 0.0
        residual = x
        all_indices = []
        for codebook in self.layers:
            indices = self.nearest(residual.detach(), codebook)
            quantized = codebook(indices)  # LOOKS-HOT
            residual = residual - quantized.detach()
            quantized_out = quantized_out + quantized
            all_indices.append(indices)
        return self.project_out(quantized_out), torch.stack(all_indices, dim=-1)


class ResidualVQNaive(ResidualVQ):
    def forward(self, x):
        all_indices = torch.stack([self.nearest(x.detach(), c) for c in self.layers], dim=-1)
        tables = torch.cat([c.weight for c in self.layers])
        offset = torch.arange(len(self.layers)) * self.layers[0].num_embeddings
        quantized = nn.functional.embedding(all_indices + offset, tables)
        return self.project_out(quantized.sum(dim=-2)), all_indices


def build():
    torch.manual_seed(0)
    return ResidualVQ(), (torch.randn(40, 24),)


def build_naive_fix():
    slow, inputs = build()
    naive = ResidualVQNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
