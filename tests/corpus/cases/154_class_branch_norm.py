"""C154 negative (after mmdetection#6515): one BatchNorm, in training, is called once for every class branch."""
import torch
from torch import nn

expected = {
    "case": "C154",
    "polarity": "negative",
    "kind": "class_loop",
    "hot_lines": [26, 31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "each call normalises by the statistics of its own branch and updates the running averages; one joint call pools the branches",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.94,
    "speedup_cpu": None,
}


class BranchScorer(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.squash = nn.BatchNorm1d(width)
        self.score = nn.Linear(width, 1)

    def branch(self, feat):
        return self.score(self.squash(feat).relu())  # LOOKS-HOT

    def forward(self, feats):
        logits = feats.new_empty(feats.shape[:2])
        for c, feat in enumerate(feats.transpose(0, 1)):
            logits[:, c] = self.branch(feat).squeeze(-1)  # LOOKS-HOT
        return logits


class BranchScorerNaive(BranchScorer):
    def forward(self, feats):
        return self.branch(feats.flatten(0, 1)).view(feats.shape[:2])


def build():
    torch.manual_seed(29)
    spread = torch.linspace(0.2, 3.0, 30).view(1, 30, 1)
    return BranchScorer().train(), (torch.randn(16, 30, 12) * spread + spread,)


def build_naive_fix():
    slow, inputs = build()
    naive = BranchScorerNaive().train()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
