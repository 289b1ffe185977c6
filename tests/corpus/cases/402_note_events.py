"""C402 (after symbolic music transformers with compound tokens): every note event goes through a three-table helper on its own."""
from dataclasses import dataclass

import torch
from torch import nn

expected = {
    "case": "C402",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [39, 40, 44],
    "fix": "hoist_batched_call",
    "auto_fix_safe": True,
    "why": "the helper is three pure lookups, a sum and a position-wise norm; it takes whole (batch, time) tensors as it is",
    "hot_share_cpu": 0.64,
    "speedup_cpu": 2.44,
}


@dataclass
class RollConfig:
    pitches: int = 129
    velocities: int = 33
    durations: int = 97
    width: int = 40


class NoteFrontEnd(nn.Module):
    def __init__(self, cfg: RollConfig):
        super().__init__()
        self.pitch = nn.Embedding(cfg.pitches, cfg.width, padding_idx=0)
        self.velocity = nn.Embedding(cfg.velocities, cfg.width)
        self.duration = nn.Embedding(cfg.durations, cfg.width)
        self.norm = nn.LayerNorm(cfg.width)
        self.body = nn.GRU(cfg.width, 16, batch_first=True)

    def _event(self, p, v, d):
        """Vector of one note: pitch, loudness and length share a width and add up."""
        summed = self.pitch(p) + self.velocity(v)  # HOT
        return self.norm(summed + self.duration(d))  # HOT

    def _embed(self, pitch, velocity, duration):
        notes = zip(pitch.t(), velocity.t(), duration.t())
        return torch.stack([self._event(*note) for note in notes], dim=1)  # HOT

    def forward(self, pitch, velocity, duration):
        states, _ = self.body(self._embed(pitch, velocity, duration))
        return states


class NoteFrontEndFixed(NoteFrontEnd):
    def _embed(self, pitch, velocity, duration):
        return self._event(pitch, velocity, duration)


def build():
    torch.manual_seed(0)
    roll = tuple(torch.randint(0, n, (4, 128)) for n in (129, 33, 97))
    return NoteFrontEnd(RollConfig()), roll


def build_fixed():
    slow, inputs = build()
    fast = NoteFrontEndFixed(RollConfig())
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
