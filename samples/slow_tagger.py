"""A recurrent tagger for utterances of uneven length, decoded one tag after the other.

Two loops are faults: words are looked up step by step, and the padding mask is filled row by row.
The loop in `decode` is not one: every tag depends on the one before it, so its lookup cannot be done in one call.

Expected findings:
    embedding-in-loop    self.words(tokens[:, step])
    masking-in-loop      outside[row, length:] = True
"""

import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self, vocabulary, tags, dim):
        super().__init__()
        self.words = nn.Embedding(vocabulary, dim)
        self.tags = nn.Embedding(tags + 1, dim)
        self.encoder = nn.GRU(dim, dim, batch_first=True)
        self.score = nn.Linear(2 * dim, tags)
        self.start = tags

    def padding(self, tokens, lengths):
        outside = torch.zeros(tokens.shape, dtype=torch.bool, device=tokens.device)
        for row, length in enumerate(lengths):
            outside[row, length:] = True
        return outside

    def decode(self, encoded):
        previous = torch.full((encoded.size(0),), self.start, device=encoded.device)
        decided = []
        for step in range(encoded.size(1)):
            context = torch.cat([encoded[:, step], self.tags(previous)], dim=-1)
            previous = self.score(context).argmax(dim=-1)
            decided.append(previous)
        return torch.stack(decided, dim=1)

    @torch.inference_mode()
    def forward(self, tokens, lengths):
        embedded = torch.stack([self.words(tokens[:, step]) for step in range(tokens.size(1))], dim=1)
        encoded, _ = self.encoder(embedded)
        return self.decode(encoded).masked_fill(self.padding(tokens, lengths), -1)


def build(vocabulary=2000, tags=12, dim=16, batch=128, length=40):
    torch.manual_seed(0)
    model = Tagger(vocabulary, tags, dim).eval()
    tokens = torch.randint(0, vocabulary, (batch, length))
    lengths = torch.randint(1, length + 1, (batch,))
    return model, (tokens, lengths)
