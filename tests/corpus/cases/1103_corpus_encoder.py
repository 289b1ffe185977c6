"""C1103: a corpus is embedded for search with autograd recording everything."""
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1103",
    "polarity": "positive",
    "kind": "missing_no_grad",
    "hot_lines": [32, 36, 37],
    "fix": "torch.inference_mode",
    "auto_fix_safe": True,
    "why": "the vectors leave as NumPy arrays, so no gradient can ever flow; the graph only keeps every activation alive",
    "hot_share_cpu": 0.39,
    "speedup_cpu": 1.63,
}


class CorpusEncoder(nn.Module):
    def __init__(self, width=128, depth=6):
        super().__init__()
        self.scale = nn.ParameterList(torch.rand(width) for _ in range(depth))
        self.shift = nn.ParameterList(torch.rand(width) for _ in range(depth))

    def encode(self, tokens):
        for a, b in zip(self.scale, self.shift):
            gate = torch.sigmoid(tokens * a + b)
            tokens = tokens + F.silu(tokens) * gate
        return F.normalize(tokens.mean(dim=1), dim=-1)

    def forward(self, corpus, batch_size=16):  # HOT
        self.eval()
        vectors = []
        for lo in range(0, len(corpus), batch_size):
            vec = self.encode(corpus[lo : lo + batch_size])  # HOT
            vectors.append(vec.detach().cpu().numpy())  # HOT
        return np.concatenate(vectors, axis=0)


class CorpusEncoderFixed(CorpusEncoder):
    @torch.inference_mode()
    def forward(self, corpus, batch_size=16):
        self.eval()
        vectors = []
        for lo in range(0, len(corpus), batch_size):
            vec = self.encode(corpus[lo : lo + batch_size])
            vectors.append(vec.cpu().numpy())
        return np.concatenate(vectors, axis=0)


def build():
    torch.manual_seed(0)
    return CorpusEncoder(), (torch.randn(32, 96, 128),)


def build_fixed():
    slow, inputs = build()
    fast = CorpusEncoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
