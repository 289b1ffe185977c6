"""`slow_bert.py` with its faults removed by hand: the same parameters, names and results.

One lookup for all tokens, one operator for attention and its mask, no copies, positions made where they are needed,
and no autograd graph.

Expected findings: none
"""

import torch
from torch import nn
from torch.nn import functional as F


class Embeddings(nn.Module):
    def __init__(self, vocabulary, length, dim):
        super().__init__()
        self.word = nn.Embedding(vocabulary, dim)
        self.position = nn.Embedding(length, dim)
        self.norm = nn.LayerNorm(dim)

    def forward(self, input_ids):
        positions = torch.arange(input_ids.size(1), device=input_ids.device)
        return self.norm(self.word(input_ids) + self.position(positions))


class SelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.output = nn.Linear(dim, dim)

    def split_heads(self, x):
        batch, length, dim = x.shape
        return x.view(batch, length, self.heads, dim // self.heads).transpose(1, 2)

    def forward(self, x, mask):
        query = self.split_heads(self.query(x))
        key = self.split_heads(self.key(x))
        value = self.split_heads(self.value(x))
        context = F.scaled_dot_product_attention(query, key, value, attn_mask=mask[:, None, None, :] > 0)
        return self.output(context.transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.attention = SelfAttention(dim, heads)
        self.attention_norm = nn.LayerNorm(dim)
        self.widen = nn.Linear(dim, 4 * dim)
        self.narrow = nn.Linear(4 * dim, dim)
        self.output_norm = nn.LayerNorm(dim)

    def forward(self, x, mask):
        x = self.attention_norm(x + self.attention(x, mask))
        return self.output_norm(x + self.narrow(F.gelu(self.widen(x))))


class EntityTagger(nn.Module):
    def __init__(self, layers, dim, heads, vocabulary, length, labels=9):
        super().__init__()
        self.embeddings = Embeddings(vocabulary, length, dim)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.classifier = nn.Linear(dim, labels)

    @torch.inference_mode()
    def forward(self, input_ids, mask):
        x = self.embeddings(input_ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.classifier(x)


def build(layers=2, dim=128, heads=4, length=128, batch=1, vocabulary=8192):
    """The size of a demonstration on a CPU; layers=6, dim=768, heads=12 is that of a distilled BERT."""
    torch.manual_seed(0)
    model = EntityTagger(layers, dim, heads, vocabulary, length).eval()
    input_ids = torch.randint(0, vocabulary, (batch, length))
    mask = torch.ones(batch, length, dtype=torch.long)
    mask[:, length - length // 4 :] = 0
    return model, (input_ids, mask)
