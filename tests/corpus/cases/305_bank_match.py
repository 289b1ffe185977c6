"""C305 (after returnn#1824, kornia#2059, pytorch_NMT#5): a shared bank of prototypes tiled once per image of the batch."""
import torch
from torch import Tensor, nn

expected = {
    "case": "C305",
    "polarity": "positive",
    "kind": "repeat_to_expand",
    "hot_lines": [26],
    "fix": "expand",
    "auto_fix_safe": True,
    "why": "the new leading dim has size 1 in the source, and bmm only reads the operand",
    "hot_share_cpu": 0.49,
    "speedup_cpu": 5.74,
}


class BankMatch(nn.Module):
    def __init__(self, bank=1024, width=128):
        super().__init__()
        self.bank = nn.Embedding(bank, width)
        self.key = nn.Linear(width, width, bias=False)

    def keys(self, batch: int) -> Tensor:
        shared = self.key(self.bank.weight).t()
        return torch.tile(shared, (batch, 1, 1))  # HOT

    def forward(self, maps: Tensor) -> dict:
        queries = maps.flatten(start_dim=2).permute(0, 2, 1)
        match = torch.bmm(queries, self.keys(queries.shape[0]))
        found = dict(match=match, best=match.amax(dim=-1))
        return found["best"]


class BankMatchFixed(BankMatch):
    def keys(self, batch: int) -> Tensor:
        shared = self.key(self.bank.weight).t()
        return shared.expand(batch, -1, -1)


def build():
    torch.manual_seed(0)
    return BankMatch(), (torch.randn(32, 128, 3, 3),)


def build_fixed():
    slow, inputs = build()
    fast = BankMatchFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
