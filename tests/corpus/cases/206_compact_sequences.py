"""C206 (after pytorch#56896, FBGEMM#3460, torchio#1017): a [B, T] mask expanded over channels for masked_select."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C206",
    "polarity": "positive",
    "kind": "broadcast_masked_select",
    "hot_lines": [20],
    "fix": "index_with_unexpanded_mask",
    "auto_fix_safe": True,
    "why": "the mask is constant along the last axis, so seq[live] picks whole rows in the same order and needs no view",
    "hot_share_cpu": 0.55,
    "speedup_cpu": 1.91,
}


def compact(seq, live):
    picked = torch.masked_select(seq, live.unsqueeze(-1).expand_as(seq))  # HOT
    return picked.view(-1, seq.shape[-1])


def compact_fixed(seq, live):
    return seq[live]


class LabelLoss(nn.Module):
    pack = staticmethod(compact)

    def __init__(self, width=48, labels=32):
        super().__init__()
        self.heads = nn.ModuleDict({"fine": nn.Linear(width, labels), "coarse": nn.Linear(width, labels)})

    def forward(self, hidden, labels, lens):
        live = torch.arange(hidden.size(1), device=hidden.device) < lens[:, None]
        wanted = labels[live]
        losses = {}
        for name, head in self.heads.items():
            losses[name] = F.cross_entropy(self.pack(head(hidden), live), wanted)
        return losses["fine"], losses["coarse"]


class LabelLossFixed(LabelLoss):
    pack = staticmethod(compact_fixed)


def build():
    torch.manual_seed(0)
    return LabelLoss(), (torch.randn(8, 160, 48), torch.randint(0, 32, (8, 160)), torch.randint(60, 160, (8,)))


def build_fixed():
    slow, inputs = build()
    fast = LabelLossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
