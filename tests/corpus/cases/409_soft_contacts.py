"""C409 (after protein structure scoring code): a soft contact map filled for half of the residue pairs and mirrored."""
import torch
from torch import nn

expected = {
    "case": "C409",
    "polarity": "positive",
    "kind": "pairwise_loop",
    "hot_lines": [37, 38, 39, 40],
    "fix": "broadcast_pairs",
    "auto_fix_safe": False,
    "why": "pairs are independent, but the batched form leans on the symmetry of the distance and on near pairs keeping their zero",
    "hot_share_cpu": 0.96,
    "speedup_cpu": 82.92,
}


class ContactMap(nn.Module):
    """Probability-like contacts between alpha carbons at least `skip` residues apart."""

    def __init__(self, cutoff=8.0, skip=3):
        super().__init__()
        self.skip = skip
        self.cutoff = nn.Parameter(torch.tensor(cutoff, dtype=torch.float64))
        self.log_slope = nn.Parameter(torch.zeros((), dtype=torch.float64))

    @property
    def slope(self):
        return self.log_slope.exp()

    def contacts(self, ca):
        n = ca.shape[-2]
        slope = self.slope
        out = ca.new_zeros(ca.shape[0], n, n)
        for i in range(self.skip, n):
            for j in range(0, i - self.skip + 1):
                gap = torch.linalg.vector_norm(ca[:, i] - ca[:, j], dim=-1)  # HOT
                c = torch.sigmoid(slope * (self.cutoff - gap))  # HOT
                out[:, i, j] = c  # HOT
                out[:, j, i] = c  # HOT
        return out

    def forward(self, ca):
        c = self.contacts(ca)
        return c, c.sum(dim=-1)


class ContactMapFixed(ContactMap):
    def contacts(self, ca):
        pos = torch.arange(ca.shape[-2], device=ca.device)
        far = (pos[:, None] - pos).abs() >= self.skip
        gap = torch.linalg.vector_norm(ca[:, :, None] - ca[:, None], dim=-1)
        return torch.sigmoid(self.slope * (self.cutoff - gap)) * far


def build():
    torch.manual_seed(0)
    chain = torch.randn(3, 20, 3, dtype=torch.float64).mul(3.8).cumsum(dim=1)
    return ContactMap(), (chain,)


def build_fixed():
    slow, inputs = build()
    fast = ContactMapFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
