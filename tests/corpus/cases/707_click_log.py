"""D707 (kind of project: click-through scoring service that replays its log): every score run parses the log again, row by row."""
import json
import zlib

import torch
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, SequentialSampler

expected = {
    "case": "D707",
    "polarity": "positive",
    "kind": "dataloader_wait",
    "hot_lines": [56, 57],
    "fix": "parse_once_and_fetch_batches",
    "auto_fix_safe": False,
    "why": "parsing ahead (or in workers) moves memory and start-up; the log may also be replaced between two runs",
    "hot_share_cpu": 1.00,
    "speedup_cpu": 7.38,
}


class ClickLog(Dataset):
    def __init__(self, lines, buckets=512):
        self.lines, self.buckets = lines, buckets

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, i):
        row = json.loads(self.lines[i])
        ids = [zlib.crc32(f"{k}={v}".encode()) % self.buckets for k, v in sorted(row["tags"].items())]
        return {"ids": torch.tensor(ids), "price": torch.tensor(float(row["price"])).log1p()}


class ParsedLog(ClickLog):
    def __init__(self, lines, buckets=512):
        super().__init__(lines, buckets)
        rows = [ClickLog.__getitem__(self, i) for i in range(len(lines))]
        self.columns = {k: torch.stack([r[k] for r in rows]) for k in ("ids", "price")}

    def __getitem__(self, index):
        return {k: v[index] for k, v in self.columns.items()}


class ClickModel(nn.Module):
    def __init__(self, log, **how):
        super().__init__()
        self.log, self.how = log, how
        self.table = nn.Embedding(log.buckets, 8)
        self.price = nn.Linear(1, 1)

    def score(self, ids, price):
        return self.table(ids).sum((1, 2)) + self.price(price[:, None]).squeeze(1)

    def forward(self):
        loader = DataLoader(self.log, **self.how)  # HOT
        return torch.sigmoid(torch.cat([self.score(**part) for part in loader]))  # HOT


LINES = [json.dumps({"price": i % 37, "tags": {"os": i % 4, "geo": i % 61, "ad": i % 97, "hour": i % 24}}) for i in range(320)]


def build():
    torch.manual_seed(0)
    return ClickModel(ClickLog(LINES), batch_size=32), ()


def build_fixed():
    torch.manual_seed(0)
    return ClickModel(log := ParsedLog(LINES), sampler=BatchSampler(SequentialSampler(log), 32, False), batch_size=None), ()
