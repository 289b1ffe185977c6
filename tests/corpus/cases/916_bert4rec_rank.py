"""C916 (after jaywonchung/BERT4Rec-VAE-Pytorch, BERTModel and BERTTrainer.calculate_metrics): all positions scored, the last one kept."""
import torch
from torch import nn

expected = {
    "case": "C916",
    "polarity": "positive",
    "kind": "linear_then_slice",
    "hot_lines": [41, 42],
    "fix": "slice_before_head",
    "auto_fix_safe": True,
    "why": "the item head is one linear layer applied per position and only the last position is ranked",
    "hot_share_cpu": 0.65,
    "speedup_cpu": 3.70,
}


class BERT(nn.Module):
    def __init__(self, num_items, max_len, hidden, heads=2, n_layers=1):
        super().__init__()
        self.token = nn.Embedding(num_items + 2, hidden, padding_idx=0)
        self.position = nn.Embedding(max_len, hidden)
        layer = nn.TransformerEncoderLayer(hidden, heads, hidden * 4, dropout=0.0, batch_first=True, norm_first=True)
        self.transformer_blocks = nn.ModuleList(layer for _ in range(n_layers))

    def forward(self, x):
        h = self.token(x) + self.position.weight[: x.size(1)]
        for transformer in self.transformer_blocks:
            h = transformer(h)
        return h


class BERT4Rec(nn.Module):
    def __init__(self, num_items=3000, max_len=50, hidden=32):
        super().__init__()
        self.bert = BERT(num_items, max_len, hidden)
        self.out = nn.Linear(hidden, num_items + 1)

    def forward(self, seqs, candidates):
        x = self.bert(seqs)
        scores = self.out(x)  # HOT
        scores = scores[:, -1, :]  # HOT
        return scores.gather(1, candidates)  # B x C


class BERT4RecFixed(BERT4Rec):
    def forward(self, seqs, candidates):
        x = self.bert(seqs)
        scores = self.out(x[:, -1, :])
        return scores.gather(1, candidates)


def build():
    torch.manual_seed(0)
    return BERT4Rec(), (torch.randint(1, 3000, (16, 50)), torch.randint(0, 3000, (16, 101)))


def build_fixed():
    slow, inputs = build()
    fast = BERT4RecFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
