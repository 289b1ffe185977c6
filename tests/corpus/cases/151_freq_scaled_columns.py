"""C151 negative (after pytorch#84491, torchrec#1537): scale_grad_by_freq counts ids per lookup call, and an attack step reads that gradient."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C151",
    "polarity": "negative",
    "kind": "embedding_loop",
    "hot_lines": [28],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "one joint lookup returns the same vectors but divides each gradient row by the count over all columns, so the perturbation changes",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.40,
    "speedup_cpu": None,
}


class RobustClicks(nn.Module):
    def __init__(self, ids=80, dim=8, eps=1.0):
        super().__init__()
        self.table = nn.Embedding(ids, dim, scale_grad_by_freq=True)
        self.score = nn.Linear(dim, 1)
        self.eps = eps

    def _embed(self, columns):
        return torch.stack([self.table(ids) for ids in columns.unbind(1)], dim=1)  # LOOKS-HOT

    def forward(self, columns, clicked):
        with torch.enable_grad():
            logit = self.score(self._embed(columns).mean(1)).squeeze(-1)
            loss = F.binary_cross_entropy_with_logits(logit, clicked)
            (slope,) = torch.autograd.grad(loss, self.table.weight)
        push = self.eps * slope / (slope.norm() + 1e-12)
        return loss.detach(), push


class RobustClicksNaive(RobustClicks):
    def _embed(self, columns):
        return self.table(columns)


def build():
    torch.manual_seed(26)
    columns = (torch.rand(24, 40).square() * 80).long()
    return RobustClicks(), (columns, torch.randint(2, (24,)).float())


def build_naive_fix():
    slow, inputs = build()
    naive = RobustClicksNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
