"""C907 (after Lightning-Universe/Finetune-miniLM finetune_minilm/nn.py): a cosine embedding loss called once per pair of the batch."""
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C907",
    "polarity": "positive",
    "kind": "pairwise_loop",
    "hot_lines": [26, 27],
    "fix": "gram_matrix_upper_triangle",
    "auto_fix_safe": False,
    "why": "one normalised matmul equals it up to rounding; restructures the loss, a human should accept it",
    "hot_share_cpu": 0.90,
    "speedup_cpu": 85.78,
}


def pairwise_cosine_embedding_loss(embeddings, labels):
    batch_size = len(embeddings)
    losses = []
    for a, b in combinations(range(batch_size), r=2):
        # label values must be 1 or -1
        match = torch.tensor(1 if labels[a] == labels[b] else -1, device=labels.device)  # HOT
        loss = F.cosine_embedding_loss(embeddings[a], embeddings[b], match, reduction="none")  # HOT
        losses.append(loss)
    return torch.mean(torch.stack(losses))


def pairwise_cosine_embedding_loss_fixed(embeddings, labels):
    unit = F.normalize(embeddings, dim=-1)
    cos = unit @ unit.t()
    loss = torch.where(labels[:, None] == labels[None, :], 1 - cos, cos.clamp(min=0))
    i, j = torch.triu_indices(len(labels), len(labels), offset=1, device=labels.device)
    return loss[i, j].mean()


class MiniLMHead(nn.Module):
    criterion = staticmethod(pairwise_cosine_embedding_loss)

    def __init__(self, hidden=96, out=48):
        super().__init__()
        self.dense = nn.Linear(hidden, out)

    def forward(self, token_embeddings, attention_mask, labels):
        mask = attention_mask.unsqueeze(-1).float()
        pooled = (token_embeddings * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return self.criterion(torch.tanh(self.dense(pooled)), labels)


class MiniLMHeadFixed(MiniLMHead):
    criterion = staticmethod(pairwise_cosine_embedding_loss_fixed)


def build():
    torch.manual_seed(0)
    mask = torch.arange(16) < torch.randint(4, 17, (16, 1))
    return MiniLMHead(), (torch.randn(16, 16, 96), mask, torch.randint(0, 4, (16,)))


def build_fixed():
    slow, inputs = build()
    fast = MiniLMHeadFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
