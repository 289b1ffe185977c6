"""C504 (after image-text contrastive models in the style of CLIP): the learned temperature is capped before the logits."""
import math

import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C504",
    "polarity": "positive",
    "kind": "host_sync_item",
    "hot_lines": [36],
    "fix": "keep_scalar_on_device",
    "auto_fix_safe": True,
    "why": "the number only multiplies the logits; min() becomes clamp(max=...), and .detach() keeps the cut of the gradient",
    "gpu_only": True,
    "hot_share_cpu": 0.01,
    "speedup_cpu": 1.03,
}


def tower(inputs, width):
    return nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Linear(width, width))


class PairScorer(nn.Module):
    MAX_SCALE = 100.0

    def __init__(self, pixels=192, words=96, width=96):
        super().__init__()
        self.image_tower = tower(pixels, width)
        self.text_tower = tower(words, width)
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def temperature(self):
        return min(self.logit_scale.exp().item(), self.MAX_SCALE)  # HOT

    def forward(self, images, texts):
        img = F.normalize(self.image_tower(images), dim=-1)
        txt = F.normalize(self.text_tower(texts), dim=-1)
        logits = self.temperature() * img @ txt.t()
        labels = torch.arange(logits.size(0), device=logits.device)
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


class PairScorerFixed(PairScorer):
    def temperature(self):
        return self.logit_scale.detach().exp().clamp(max=self.MAX_SCALE)


def build():
    torch.manual_seed(0)
    return PairScorer(), (torch.randn(512, 192), torch.randn(512, 96))


def build_fixed():
    slow, inputs = build()
    fast = PairScorerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
