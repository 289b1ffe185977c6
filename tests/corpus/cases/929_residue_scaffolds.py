"""C929 (after EleutherAI/mp_nerf#5, scn_cloud_mask and the scaffolds): per-residue numpy templates collected by torch.tensor([...])."""
import numpy as np
import torch
from torch import nn

expected = {
    "case": "C929",
    "polarity": "positive",
    "kind": "tensor_from_list_of_arrays",
    "hot_lines": [30, 41, 42],
    "fix": "np.array_first",
    "auto_fix_safe": True,
    "why": "the templates of all residues have one shape and dtype; np.array makes a fresh block that torch.tensor copies at once",
    "hot_share_cpu": 0.89,
    "speedup_cpu": 8.48,
}

_rng = np.random.default_rng(0)
SUPREME_INFO = {
    aa: {
        "cloud_mask": (np.arange(14) < 5 + i % 10).astype(np.float32),
        "bond_mask": _rng.uniform(1.2, 1.6, 14).astype(np.float32),
        "theta_mask": _rng.uniform(1.8, 2.2, 14).astype(np.float32),
    }
    for i, aa in enumerate("ARNDCQEGHILKMFPSTWYV")
}


def scn_cloud_mask(seq, device="cpu"):
    return torch.tensor([SUPREME_INFO[aa]["cloud_mask"] for aa in seq], device=device)  # HOT


class SidechainScaffold(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embed = nn.Linear(28, width)
        self.mix = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 14))

    def scaffolds(self, seq, device):
        cloud_mask = scn_cloud_mask(seq, device)
        bond_mask = torch.tensor([SUPREME_INFO[aa]["bond_mask"] for aa in seq], device=device)  # HOT
        angles_mask = torch.tensor([SUPREME_INFO[aa]["theta_mask"] for aa in seq], device=device)  # HOT
        return cloud_mask, bond_mask, angles_mask

    def forward(self, seq):
        cloud_mask, bonds, angles = self.scaffolds(seq, self.embed.weight.device)
        h = self.embed(torch.cat([bonds, angles], dim=-1))
        return self.mix(h) * cloud_mask


class SidechainScaffoldFixed(SidechainScaffold):
    def scaffolds(self, seq, device):
        names = ("cloud_mask", "bond_mask", "theta_mask")
        return [torch.tensor(np.array([SUPREME_INFO[aa][n] for aa in seq]), device=device) for n in names]


def build():
    torch.manual_seed(0)
    return SidechainScaffold(), ("MKTAYIAKQRQISFVKSHFSRQLEERLGLIEV" * 6,)


def build_fixed():
    slow, inputs = build()
    fast = SidechainScaffoldFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
