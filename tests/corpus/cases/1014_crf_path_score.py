"""C1014: the score of a tag path added up element by element."""
import torch
from torch import nn

expected = {
    "case": "C1014",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [30],
    "fix": "index_with_shifted_tags_and_sum",
    "auto_fix_safe": True,
    "why": "tags are only read and no step depends on the running sum: trans[tags[1:], tags[:-1]] reads the same cells (tolist() once also helps)",
    "hot_share_cpu": 0.92,
    "speedup_cpu": 25.40,
}


class PathScorer(nn.Module):
    START, STOP = 0, 1

    def __init__(self, width=16, tagset=9):
        super(PathScorer, self).__init__()
        self.emit = nn.Linear(width, tagset)
        self.transitions = nn.Parameter(torch.randn(tagset, tagset))

    def _score_sentence(self, feats, tags):
        score = torch.zeros(1)
        tags = torch.cat([torch.tensor([self.START], dtype=torch.long), tags])
        for i, feat in enumerate(feats):
            score = score + self.transitions[tags[i + 1], tags[i]] + feat[tags[i + 1]]  # HOT
        score = score + self.transitions[self.STOP, tags[-1]]
        return score

    def forward(self, words, tags):
        feats = self.emit(words)
        return self._score_sentence(feats, tags)


class PathScorerFixed(PathScorer):
    def _score_sentence(self, feats, tags):
        before = torch.cat([torch.tensor([self.START], dtype=torch.long), tags])
        n = feats.size(0)
        score = self.transitions[before[1 : n + 1], before[:n]].sum() + feats.gather(1, tags[:n, None]).sum()
        return (score + self.transitions[self.STOP, before[-1]]).view(1)


def build():
    torch.manual_seed(0)
    return PathScorer(), (torch.randn(120, 16), torch.randint(2, 9, (120,)))


def build_fixed():
    slow, inputs = build()
    fast = PathScorerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
