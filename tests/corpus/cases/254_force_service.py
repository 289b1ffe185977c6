"""C254 negative (after SchNetPack/MACE calculators): predict() of a potential differentiates its own energy to get forces."""
import torch
from torch import nn

expected = {
    "case": "C254",
    "polarity": "negative",
    "kind": "missing_no_grad",
    "hot_lines": [33, 35],
    "must_not": "flag_or_fix",
    "auto_fix_safe": False,
    "why": "no backward() anywhere and the results are detached, yet autograd.grad needs the graph: no_grad or inference_mode raises",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.00,
    "speedup_cpu": None,
}


class PairPotential(nn.Module):
    def __init__(self, kinds=4, rank=8):
        super().__init__()
        self.charge = nn.Embedding(kinds, rank)
        self.decay = nn.Parameter(torch.rand(rank))

    def energy(self, pos, kind):
        delta = pos[:, None, :] - pos[None, :, :]
        eye = torch.eye(pos.size(0), dtype=pos.dtype, device=pos.device)
        dist = (delta.pow(2).sum(-1) + eye).sqrt()
        q = self.charge(kind)
        pair = torch.einsum("ir,jr,ijr->ij", q, q, torch.exp(-self.decay * dist.unsqueeze(-1)))
        return (pair * (1 - eye)).sum() * 0.5

    def predict(self, pos, kind):  # LOOKS-HOT
        pos = pos.detach().requires_grad_(True)
        energy = self.energy(pos, kind)  # LOOKS-HOT
        (slope,) = torch.autograd.grad(energy, pos)
        return {"energy": energy.detach(), "forces": -slope}

    def forward(self, pos, kind):
        out = self.predict(pos, kind)
        return out["energy"], out["forces"]


class PairPotentialNaive(PairPotential):
    @torch.no_grad()
    def predict(self, pos, kind):
        return super().predict(pos, kind)


def build():
    torch.manual_seed(0)
    return PairPotential().eval(), (torch.randn(24, 3) * 2, torch.randint(0, 4, (24,)))


def build_naive_fix():
    slow, inputs = build()
    naive = PairPotentialNaive().eval()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
