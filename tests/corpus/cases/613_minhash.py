"""C613 (after near-duplicate filters for text corpora): MinHash signatures of shingled documents and their pairwise agreement."""
import torch
from torch import nn

expected = {
    "case": "C613",
    "polarity": "positive",
    "kind": "unused_reduction_indices",
    "hot_lines": [31],
    "fix": "amin",
    "auto_fix_safe": True,
    "why": "the positions are thrown away and the values are integers, so neither gradients at ties nor NaN can differ",
    "hot_share_cpu": 0.73,
    "speedup_cpu": 2.36,
}

WORD = (1 << 31) - 1


class MinHash(nn.Module):
    def __init__(self, hashes=96):
        super().__init__()
        self.register_buffer("mul", torch.randint(1, WORD, (hashes, 1), dtype=torch.int32) | 1)
        self.register_buffer("add", torch.randint(0, WORD, (hashes, 1), dtype=torch.int32))

    def signature(self, shingles):
        """shingles: documents x length, int32; returns documents x hashes."""
        mixed = shingles.unsqueeze(1) * self.mul
        mixed += self.add  # wraps around
        mixed &= WORD
        lowest, _ = torch.min(mixed, dim=-1)  # HOT
        return lowest

    def forward(self, shingles):
        sig = self.signature(shingles)
        same = sig[:, None] == sig[None]
        return sig, same.float().mean(dim=-1)


class MinHashFixed(MinHash):
    def signature(self, shingles):
        mixed = shingles.unsqueeze(1) * self.mul
        mixed += self.add  # wraps around
        mixed &= WORD
        return torch.amin(mixed, dim=-1)


def build():
    torch.manual_seed(0)
    return MinHash(), (torch.randint(0, WORD, (48, 400), dtype=torch.int32),)


def build_fixed():
    slow, inputs = build()
    fast = MinHashFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
