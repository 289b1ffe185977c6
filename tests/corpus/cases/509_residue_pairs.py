"""C509 (after protein structure prediction training code): distance loss over the pairs of resolved residues."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C509",
    "polarity": "positive",
    "kind": "broadcast_masked_select",
    "hot_lines": [30, 31],
    "fix": "where_sum_over_count",
    "auto_fix_safe": True,
    "why": "the selection is only averaged; where() and a division by the count give the same mean, NaN for no pair included",
    "hot_share_cpu": 0.68,
    "speedup_cpu": 2.29,
}


class PairDistanceLoss(nn.Module):
    """Smooth L1 between predicted and true distances of a few atom pairs per residue pair."""

    def __init__(self, channels=4, atom_pairs=3, beta=0.5):
        super().__init__()
        self.readout = nn.Linear(channels, atom_pairs)
        self.beta = beta

    def forward(self, pair_repr, distances, resolved):
        predicted = self.readout(pair_repr)
        pair = (resolved[:, :, None] & resolved[:, None, :]).unsqueeze(-1)
        chosen = torch.masked_select(predicted, pair)  # HOT
        wanted = torch.masked_select(distances, pair)  # HOT
        return F.smooth_l1_loss(chosen, wanted, beta=self.beta)


class PairDistanceLossFixed(PairDistanceLoss):
    def forward(self, pair_repr, distances, resolved):
        predicted = self.readout(pair_repr)
        pair = (resolved[:, :, None] & resolved[:, None, :]).unsqueeze(-1)
        error = F.smooth_l1_loss(predicted, distances, beta=self.beta, reduction="none")
        count = pair.sum() * predicted.size(-1)
        return torch.where(pair, error, 0.0).sum() / count


def build():
    torch.manual_seed(0)
    length = 150
    inputs = (
        torch.randn(2, length, length, 4),
        torch.rand(2, length, length, 3) * 3,
        torch.rand(2, length) < 0.8,
    )
    return PairDistanceLoss(), inputs


def build_fixed():
    slow, inputs = build()
    fast = PairDistanceLossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
