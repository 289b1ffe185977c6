"""C842 (after massquantity/LibRecommender#356, hopsparser#67, torchdistill#245): serving code that could run in inference mode."""
import torch
import torch.nn as nn

expected = {
    "case": "C842",
    "polarity": "positive",
    "kind": "no_grad_to_inference_mode",
    "hot_lines": [42],
    "fix": "torch.inference_mode",
    "auto_fix_safe": True,
    "why": "only a Python list of item ids leaves recommend() and nothing is kept on self; a gain of some per cent",
    "hot_share_cpu": 0.06,
    "speedup_cpu": 1.06,
}


class FieldEncoder(nn.Module):
    def __init__(self, sizes, dim):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim) for n in sizes)

    def forward(self, fields):
        vecs = [table(col) for table, col in zip(self.tables, fields.unbind(1))]
        return torch.stack(vecs, dim=1)


class FMRecommender(nn.Module):
    def __init__(self, sizes=(50, 7, 21, 12, 4, 30, 9, 16), n_items=200, dim=8):
        super().__init__()
        self.fields = FieldEncoder(sizes, dim)
        self.gates = nn.ParameterList(torch.rand(dim) for _ in sizes)
        self.items = nn.Embedding(n_items, dim)
        self.bias = nn.Parameter(torch.zeros(n_items))

    def user_vector(self, fields):
        v = self.fields(fields)
        parts = [v[:, i] * g for i, g in enumerate(self.gates)]
        square = v.sum(dim=1).square() - v.square().sum(dim=1)
        return sum(parts) + 0.5 * square

    @torch.no_grad()  # HOT
    def recommend(self, fields, n_rec=7):
        self.eval()
        scores = self.user_vector(fields) @ self.items.weight.t() + self.bias
        return scores.topk(n_rec, dim=1).indices.tolist()

    def forward(self, fields):
        return self.recommend(fields)


class FMRecommenderFixed(FMRecommender):
    @torch.inference_mode()
    def recommend(self, fields, n_rec=7):
        self.eval()
        scores = self.user_vector(fields) @ self.items.weight.t() + self.bias
        return scores.topk(n_rec, dim=1).indices.tolist()


def build():
    torch.manual_seed(0)
    return FMRecommender(), (torch.randint(0, 4, (4, 8)),)


def build_fixed():
    slow, inputs = build()
    fast = FMRecommenderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
