"""C211 (after torchebm#239, Megatron-LM#1403, FCOS-like losses): a hit count pulled to the host only to divide by it, per level."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C211",
    "polarity": "positive",
    "kind": "host_sync_item",
    "hot_lines": [21],
    "fix": "keep_scalar_on_device",
    "auto_fix_safe": True,
    "why": "the count of a bool tensor has no gradient and only enters a division of a tensor with dimensions, so the 0-d tensor does the same",
    "gpu_only": True,
    "hot_share_cpu": 0.14,
    "speedup_cpu": 0.98,
}


def level_loss(logits, hits):
    n_hits = float(hits.sum())  # HOT
    raw = F.binary_cross_entropy_with_logits(logits, hits.to(logits.dtype), reduction="none")
    return (raw / (n_hits + 1.0)).sum()


def level_loss_fixed(logits, hits):
    n_hits = hits.sum()
    raw = F.binary_cross_entropy_with_logits(logits, hits.to(logits.dtype), reduction="none")
    return (raw / (n_hits + 1.0)).sum()


class PyramidLoss(nn.Module):
    level = staticmethod(level_loss)

    def __init__(self, levels=5):
        super().__init__()
        self.sharpness = nn.Parameter(torch.ones(levels))

    def forward(self, maps, hits):
        parts = [self.level(s * m, h) for s, m, h in zip(self.sharpness, maps, hits)]
        return torch.stack(parts).sum()


class PyramidLossFixed(PyramidLoss):
    level = staticmethod(level_loss_fixed)


def build():
    torch.manual_seed(0)
    sizes = [16, 12, 8, 4, 2]
    maps = [torch.randn(2, n, n) for n in sizes]
    return PyramidLoss(), (maps, [torch.rand(2, n, n) < 0.2 for n in sizes])


def build_fixed():
    slow, inputs = build()
    fast = PyramidLossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
