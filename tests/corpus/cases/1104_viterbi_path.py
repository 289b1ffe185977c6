"""C1104: a Viterbi decoder of tiny view-heavy steps under no_grad; only a list of ints gets out."""
import torch
from torch import nn

expected = {
    "case": "C1104",
    "polarity": "positive",
    "kind": "no_grad_to_inference_mode",
    "hot_lines": [24],
    "fix": "torch.inference_mode",
    "auto_fix_safe": True,
    "why": "only Python ints leave the function and nothing is kept on self, so no inference tensor can meet autograd",
    "hot_share_cpu": 0.17,
    "speedup_cpu": 1.20,
}


class TagPath(nn.Module):
    def __init__(self, tags=5):
        super().__init__()
        self.start = nn.Parameter(torch.randn(tags))
        self.trans = nn.Parameter(torch.randn(tags, tags))

    @torch.no_grad()  # HOT
    def forward(self, emissions):
        score = self.start + emissions[0]
        back = []
        for t in range(1, emissions.shape[0]):
            best, prev = (score.view(-1, 1) + self.trans).max(dim=0)
            score = best + emissions[t]
            back.append(prev)
        tag = int(score.argmax())
        path = [tag]
        for prev in reversed(torch.stack(back).tolist()):
            tag = prev[tag]
            path.append(tag)
        return path[::-1]


class TagPathFixed(TagPath):
    @torch.inference_mode()
    def forward(self, emissions):
        score = self.start + emissions[0]
        back = []
        for t in range(1, emissions.shape[0]):
            best, prev = (score.view(-1, 1) + self.trans).max(dim=0)
            score = best + emissions[t]
            back.append(prev)
        tag = int(score.argmax())
        path = [tag]
        for prev in reversed(torch.stack(back).tolist()):
            tag = prev[tag]
            path.append(tag)
        return path[::-1]


def build():
    torch.manual_seed(0)
    return TagPath(), (torch.randn(300, 5),)


def build_fixed():
    slow, inputs = build()
    fast = TagPathFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
