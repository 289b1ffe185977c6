"""C845 (after pytorch/torchtitan#3274, diffusers#11030, pytorch#108968): repeat_interleave has to ask the device for its own length."""
import torch
import torch.nn as nn

expected = {
    "case": "C845",
    "polarity": "positive",
    "kind": "implicit_host_sync",
    "hot_lines": [21],
    "fix": "output_size",
    "auto_fix_safe": True,
    "why": "the batch index is used next to pos, so its length is pos.size(0), a number the host already has",
    "gpu_only": True,
    "hot_share_cpu": 0.08,
    "speedup_cpu": 1.04,
}


def batch_index(natoms):
    image = torch.arange(natoms.numel(), device=natoms.device)
    return torch.repeat_interleave(image, natoms)  # HOT


class EnergyHead(nn.Module):
    def __init__(self, elements=20, width=24):
        super().__init__()
        self.element = nn.Embedding(elements, width)
        self.radial = nn.Linear(3, width)
        self.out = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def center(self, pos, batch, natoms):
        mean = pos.new_zeros(natoms.numel(), 3).index_add(0, batch, pos) / natoms.unsqueeze(1)
        return pos - mean[batch]

    def readout(self, pos, z, batch, natoms):
        h = self.element(z) + self.radial(self.center(pos, batch, natoms))
        per_atom = self.out(h).squeeze(-1)
        return per_atom.new_zeros(natoms.numel()).index_add(0, batch, per_atom)

    def forward(self, pos, z, natoms):
        batch = batch_index(natoms)
        return self.readout(pos, z, batch, natoms)


class EnergyHeadFixed(EnergyHead):
    def forward(self, pos, z, natoms):
        image = torch.arange(natoms.numel(), device=natoms.device)
        batch = torch.repeat_interleave(image, natoms, output_size=pos.size(0))
        return self.readout(pos, z, batch, natoms)


def build():
    torch.manual_seed(0)
    natoms = torch.randint(4, 30, (16,))
    n = int(natoms.sum())
    return EnergyHead(), (torch.randn(n, 3), torch.randint(0, 20, (n,)), natoms)


def build_fixed():
    slow, inputs = build()
    fast = EnergyHeadFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
