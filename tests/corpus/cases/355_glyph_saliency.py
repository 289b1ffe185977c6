"""C355 negative (after the amax note in ppq#571): max drops its indices, but its gradient picks one of many equal places."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C355",
    "polarity": "negative",
    "kind": "unused_reduction_indices",
    "hot_lines": [26],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "binary glyphs tie often; max sends the gradient to one place, amax spreads it over all, and the gradient is the result",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.21,
    "speedup_cpu": None,
}


class GlyphSaliency(nn.Module):
    def __init__(self, strokes=8):
        super().__init__()
        self.strokes = nn.Parameter(torch.randn(strokes, 1, 3, 3))

    def peaks(self, response):
        return response.flatten(start_dim=2).max(dim=-1)[0]  # LOOKS-HOT

    def forward(self, glyphs):
        with torch.enable_grad():
            seen = glyphs.detach().float().requires_grad_()
            score = self.peaks(F.conv2d(seen, self.strokes, padding=1))
            (heat,) = torch.autograd.grad(score.sum(), seen)
        return {"score": score.detach(), "heat": heat}["heat"]


class GlyphSaliencyNaive(GlyphSaliency):
    def peaks(self, response):
        return response.flatten(start_dim=2).amax(dim=-1)


def build():
    torch.manual_seed(0)
    return GlyphSaliency(), (torch.rand(16, 1, 32, 32) < 0.4,)


def build_naive_fix():
    slow, inputs = build()
    naive = GlyphSaliencyNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
