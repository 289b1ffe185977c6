"""C408 (after land cover segmentation evaluators): hits, false alarms and misses are counted class by class."""
import torch
from torch import nn

expected = {
    "case": "C408",
    "polarity": "positive",
    "kind": "class_loop",
    "hot_lines": [29, 30, 31, 32, 33],
    "fix": "broadcast_over_classes",
    "auto_fix_safe": True,
    "why": "integer counts per class into rows of a fresh table; one comparison with a class axis gives the same numbers exactly",
    "hot_share_cpu": 0.88,
    "speedup_cpu": 7.09,
}


class CoverCounts(nn.Module):
    """Rows: class. Columns: true positives, false positives, false negatives. Unlabelled pixels do not count."""

    def __init__(self, n_classes, void=255):
        super().__init__()
        self.n_classes, self.void = n_classes, void

    def forward(self, pred, truth):
        table = torch.zeros(self.n_classes, 3, dtype=torch.int64, device=pred.device)
        labelled = torch.ne(truth, self.void)
        for c in range(self.n_classes):
            said = torch.eq(pred, c) & labelled  # HOT
            real = torch.eq(truth, c)  # HOT
            table[c, 0] += (said & real).sum()  # HOT
            table[c, 1] += (said & ~real).sum()  # HOT
            table[c, 2] += (real & ~said).sum()  # HOT
        return table


class CoverCountsFixed(CoverCounts):
    def forward(self, pred, truth):
        classes = torch.arange(self.n_classes, device=pred.device)[:, None]
        said = (pred.flatten() == classes) & (truth.flatten() != self.void)
        real = truth.flatten() == classes
        return torch.stack(((said & real).sum(1), (said & ~real).sum(1), (real & ~said).sum(1)), dim=1)


class CoverNet(nn.Module):
    def __init__(self, bands=5, n_classes=44, counts=CoverCounts):
        super().__init__()
        self.classify = nn.Conv2d(bands, n_classes, kernel_size=1)
        self.counts = counts(n_classes)

    def forward(self, tile, truth):
        logits = self.classify(tile)
        return self.counts(logits.argmax(dim=1), truth)


def build():
    torch.manual_seed(0)
    truth = torch.randint(0, 44, (2, 20, 20)).masked_fill_(torch.rand(2, 20, 20) < 0.1, 255)
    return CoverNet(), (torch.randn(2, 5, 20, 20), truth)


def build_fixed():
    slow, inputs = build()
    fast = CoverNet(counts=CoverCountsFixed)
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
