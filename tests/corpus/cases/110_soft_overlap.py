"""C110 (after MONAI#8764, which vectorised the Dice helper): the soft Dice score computed class by class."""
import torch
from torch import nn

expected = {
    "case": "C110",
    "polarity": "positive",
    "kind": "class_loop",
    "hot_lines": [27, 28, 29, 30],
    "fix": "compare_with_arange_and_reduce",
    "auto_fix_safe": True,
    "why": "a class reads only its own channel and its own compare; one compare with arange(C) and sums over (0, 2, 3) give the same scores",
    "hot_share_cpu": 0.94,
    "speedup_cpu": 16.35,
}


class SoftOverlap(nn.Module):
    def __init__(self, classes=36, smooth=1.0):
        super().__init__()
        self.classes, self.smooth = classes, smooth
        self.temper = nn.Parameter(torch.ones(classes))

    def scores(self, prob, labels):
        score = prob.new_zeros(self.classes)
        for c in range(self.classes):
            truth = labels.eq(c).to(dtype=prob.dtype)  # HOT
            hit = (prob[:, c] * truth).sum()  # HOT
            size = prob[:, c].sum() + truth.sum()  # HOT
            score[c] = (2.0 * hit + self.smooth) / (size + self.smooth)  # HOT
        return score

    def forward(self, logits, labels):
        prob = torch.softmax(logits * self.temper.view(1, -1, 1, 1), dim=1)
        return 1.0 - self.scores(prob, labels)


class SoftOverlapFixed(SoftOverlap):
    def scores(self, prob, labels):
        ids = torch.arange(self.classes, device=labels.device).view(1, -1, 1, 1)
        truth = labels.unsqueeze(1).eq(ids).to(dtype=prob.dtype)
        hit = (prob * truth).sum((0, 2, 3))
        size = prob.sum((0, 2, 3)) + truth.sum((0, 2, 3))
        return (2.0 * hit + self.smooth) / (size + self.smooth)


def build():
    torch.manual_seed(20)
    return SoftOverlap(), (torch.randn(2, 36, 10, 10), torch.randint(36, (2, 10, 10)))


def build_fixed():
    return SoftOverlapFixed(), build()[1]
