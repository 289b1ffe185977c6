"""C1105: the borders of ragged clouds come from a generator that reads one count per turn."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1105",
    "polarity": "positive",
    "kind": "item_in_loop",
    "hot_lines": [28, 29],
    "fix": "tolist_once",
    "auto_fix_safe": True,
    "why": "counts is only read, and tolist() gives the same ints as item() on every element: N host syncs become one",
    "hot_share_cpu": 0.54,
    "speedup_cpu": 3.59,
}


class CloudPacker(nn.Module):
    def __init__(self, in_dim=4, width=16):
        super().__init__()
        self.lift = nn.Linear(in_dim, width)

    @staticmethod
    def borders(counts):
        end = 0
        yield end
        for c in counts:  # HOT
            end += c.item()  # HOT
            yield end

    def forward(self, points, counts):
        feats = F.layer_norm(self.lift(points), (self.lift.out_features,)).relu()
        edges = list(self.borders(counts))
        return feats[: edges[-1]], edges


class CloudPackerFixed(CloudPacker):
    @staticmethod
    def borders(counts):
        end = 0
        yield end
        for c in counts.tolist():
            end += c
            yield end


def build():
    torch.manual_seed(0)
    counts = torch.randint(1, 9, (800,))
    return CloudPacker(), (torch.randn(int(counts.sum()), 4), counts)


def build_fixed():
    slow, inputs = build()
    fast = CloudPackerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
