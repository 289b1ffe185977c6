"""C902 (after snap-stanford/ogb ogb/graphproppred/mol_encoder.py AtomEncoder): one table lookup per categorical atom feature."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C902",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [31],
    "fix": "offset_indices_into_one_table",
    "auto_fix_safe": False,
    "why": "one lookup needs all tables in one weight (or concatenated each call): a layout change that checkpoints see",
    "hot_share_cpu": 0.68,
    "speedup_cpu": 1.80,
}

full_atom_feature_dims = [119, 5, 12, 12, 10, 6, 6, 2, 2]


class AtomEncoder(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.atom_embedding_list = nn.ModuleList()
        for dim in full_atom_feature_dims:
            self.atom_embedding_list.append(nn.Embedding(dim, emb_dim))

    def forward(self, x):
        x_embedding = 0
        for i in range(x.shape[1]):
            x_embedding += self.atom_embedding_list[i](x[:, i])  # HOT
        return x_embedding


class AtomEncoderFixed(AtomEncoder):
    def forward(self, x):
        dims = torch.tensor([0] + full_atom_feature_dims[:-1], device=x.device)
        table = torch.cat([emb.weight for emb in self.atom_embedding_list])
        return F.embedding_bag(x + dims.cumsum(0), table, mode="sum")


class GINNet(nn.Module):
    encoder = AtomEncoder

    def __init__(self, emb_dim=64):
        super().__init__()
        self.atom_encoder = self.encoder(emb_dim)
        self.mlp = nn.Sequential(nn.Linear(emb_dim, emb_dim), nn.ReLU(), nn.Linear(emb_dim, emb_dim))
        self.eps = nn.Parameter(torch.zeros(1))

    def forward(self, x, adj):
        h = self.atom_encoder(x)
        return self.mlp((1 + self.eps) * h + adj @ h).mean(0)


class GINNetFixed(GINNet):
    encoder = AtomEncoderFixed


def build():
    torch.manual_seed(0)
    x = torch.stack([torch.randint(0, d, (32,)) for d in full_atom_feature_dims], 1)
    return GINNet(), (x, (torch.rand(32, 32) < 0.1).float())


def build_fixed():
    slow, inputs = build()
    fast = GINNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
