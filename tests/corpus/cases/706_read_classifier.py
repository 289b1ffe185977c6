"""D706 (kind of project: metagenomics, reads classified by their k-mers): the epoch waits while Python counts k-mers read by read."""
import itertools
import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

expected = {
    "case": "D706",
    "polarity": "positive",
    "kind": "dataloader_wait",
    "hot_lines": [47, 52],
    "fix": "count_once_or_workers",
    "auto_fix_safe": False,
    "why": "workers cost start-up and memory, a table of counts costs memory; which of them fits is the owner's choice",
    "hot_share_cpu": 0.87,
    "speedup_cpu": 68.10,
}

REVERSE = str.maketrans("ACGT", "TGCA")


class Reads(Dataset):
    """Canonical k-mer frequencies of a read; the strand it came from is unknown."""

    def __init__(self, reads, k=3):
        self.reads, self.k = reads, k
        words = map("".join, itertools.product("ACGT", repeat=k))
        self.column = {w: i for i, w in enumerate(sorted({min(w, w.translate(REVERSE)[::-1]) for w in words}))}

    def __len__(self):
        return len(self.reads)

    def __getitem__(self, i):
        read, counts = self.reads[i], [0.0] * len(self.column)
        for j in range(len(read) - self.k + 1):
            word = read[j:j + self.k]
            counts[self.column[min(word, word.translate(REVERSE)[::-1])]] += 1.0
        return torch.tensor(counts) / len(read)


class Taxonomy(nn.Module):
    def __init__(self, reads, taxa=20):
        super().__init__()
        data = Reads(reads)
        self.loader = DataLoader(data, batch_size=16)  # HOT
        self.net = nn.Sequential(nn.Linear(len(data.column), 64), nn.ReLU(), nn.Linear(64, taxa))

    def forward(self):
        votes = 0
        for step, batch in enumerate(self.loader):  # HOT
            votes = votes + self.net(batch).softmax(-1).sum(0) / (1 + step)
        return votes


def sample(n=128, length=450):
    rng = random.Random(5)
    return ["".join(rng.choices("ACGT", k=length)) for _ in range(n)]


def build():
    torch.manual_seed(0)
    return Taxonomy(sample()), ()


def build_fixed():
    model, inputs = build()
    model.loader = DataLoader(list(model.loader.dataset), batch_size=16)
    return model, inputs
