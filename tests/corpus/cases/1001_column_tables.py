"""C1001: one tiny embedding call per categorical column."""
import torch
from torch import nn

expected = {
    "case": "C1001",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [25],
    "fix": "one_table_with_row_offsets",
    "auto_fix_safe": False,
    "why": "all tables have one width, so one big table and per-column offsets give the same rows; but parameters (checkpoints, optimizer) change",
    "hot_share_cpu": 0.95,
    "speedup_cpu": 21.07,
}


class ColumnEncoder(nn.Module):
    def __init__(self, cards, width=8, classes=4):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(c, width) for c in cards)
        self.head = nn.Linear(width * len(cards), classes)

    def forward(self, codes):
        cols = [table(col) for table, col in zip(self.tables, codes.unbind(dim=1))]  # HOT
        return self.head(torch.cat(cols, dim=1))


class ColumnEncoderFixed(nn.Module):
    def __init__(self, slow):
        super().__init__()
        sizes = torch.tensor([0] + [t.num_embeddings for t in slow.tables[:-1]])
        self.register_buffer("first_row", sizes.cumsum(0), persistent=False)
        self.table = nn.Embedding.from_pretrained(torch.cat([t.weight.detach() for t in slow.tables]), freeze=False)
        self.head = slow.head

    def forward(self, codes):
        return self.head(self.table(codes + self.first_row).flatten(1))


CARDS = tuple(3 + (7 * i) % 50 for i in range(120))


def build():
    torch.manual_seed(0)
    codes = torch.stack([torch.randint(0, c, (32,)) for c in CARDS], dim=1)
    return ColumnEncoder(CARDS), (codes,)


def build_fixed():
    slow, inputs = build()
    return ColumnEncoderFixed(slow), inputs
