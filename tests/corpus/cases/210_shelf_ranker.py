"""C210 (after LibRecommender#356, torchdistill#245): a recommender's rank() under @torch.no_grad that answers with plain lists."""
import torch
from torch import nn

expected = {
    "case": "C210",
    "polarity": "positive",
    "kind": "no_grad_to_inference_mode",
    "hot_lines": [32],
    "fix": "torch.inference_mode",
    "auto_fix_safe": True,
    "why": "ids and scores leave through tolist(), nothing is kept on self; a few per cent on view-heavy code, not more",
    "hot_share_cpu": 0.20,
    "speedup_cpu": 1.28,
}


class ShelfRanker(nn.Module):
    def __init__(self, width=32, slots=16):
        super().__init__()
        self.slots = slots
        self.towers = nn.ModuleDict({"user": nn.Linear(width, width), "item": nn.Linear(width, width)})

    def match(self, user, shelf):
        u = self.towers["user"](user).view(user.size(0), self.slots, -1)
        v = self.towers["item"](shelf).view(shelf.size(0), self.slots, -1)
        score = u.new_zeros(u.size(0), v.size(0))
        for s in range(self.slots):
            score += u[:, s] @ v[:, s].t()
        return score

    @torch.no_grad()  # HOT
    def rank(self, user, shelf, k=3):
        best = self.match(user, shelf).topk(k, dim=-1)
        return best.indices.tolist(), best.values.tolist()

    def forward(self, user, shelf):
        ids, scores = self.rank(user, shelf)
        return ids, scores


class ShelfRankerFixed(ShelfRanker):
    @torch.inference_mode()
    def rank(self, user, shelf, k=3):
        best = self.match(user, shelf).topk(k, dim=-1)
        return best.indices.tolist(), best.values.tolist()


def build():
    torch.manual_seed(0)
    return ShelfRanker().eval(), (torch.randn(2, 32), torch.randn(12, 32))


def build_fixed():
    slow, inputs = build()
    fast = ShelfRankerFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
