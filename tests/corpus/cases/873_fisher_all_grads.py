"""C873 negative (after tudor-berariu/fisher-information-matrix fim.py, EWC fisher_matrix_diag, caveat 1 in pytorch#42754): zeros that get read."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C873",
    "polarity": "negative",
    "kind": "zero_grad_loop",
    "hot_lines": [40],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "each task leaves the other heads without a gradient and .grad of all parameters is squared next: None has no square, zero has",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.02,
    "speedup_cpu": None,
}


class MultiHead(nn.Module):
    def __init__(self, dim=16, tasks=3, classes=4):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(dim, classes) for _ in range(tasks))

    def forward(self, x, task):
        return self.heads[task](self.body(x))


class FisherDiag(nn.Module):
    def __init__(self, tasks=3):
        super().__init__()
        self.model = MultiHead(tasks=tasks)
        self.tasks = tasks
        for p in self.model.parameters():
            p.grad = torch.zeros_like(p)

    def clear(self):
        for p in self.model.parameters():
            p.grad.zero_()  # LOOKS-HOT

    def forward(self, x, y):
        fisher = [torch.zeros_like(p) for p in self.model.parameters()]
        for task in range(self.tasks):
            self.clear()
            log_prob = F.log_softmax(self.model(x[task], task), dim=1)
            F.nll_loss(log_prob, y[task]).backward()
            for f, p in zip(fisher, self.model.parameters()):
                f += p.grad.data ** 2 / self.tasks
        return torch.cat([f.flatten() for f in fisher])


class FisherDiagNaive(FisherDiag):
    def clear(self):
        self.model.zero_grad(set_to_none=True)


def build():
    torch.manual_seed(0)
    return FisherDiag(), (torch.randn(3, 8, 16), torch.randint(0, 4, (3, 8)))


def build_naive_fix():
    slow, inputs = build()
    naive = FisherDiagNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
