"""C972 negative (after megvii-model/DetNAS#3 and pytorch/pytorch#83769): a zero .grad still moves the paths that were not sampled."""
import torch
from torch import nn

expected = {
    "case": "C972",
    "polarity": "negative",
    "kind": "zero_grad_loop",
    "hot_lines": [38, 39],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "SGD reads the zeros: momentum and decay go on for an idle block, but a .grad of None makes step() skip it",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.02,
    "speedup_cpu": None,
}


class SuperNet(nn.Module):
    def __init__(self, width=16, choices=4):
        super().__init__()
        self.choices = nn.ModuleList(nn.Linear(width, width) for _ in range(choices))
        self.head = nn.Linear(width, 1)

    def forward(self, x, path):
        return self.head(torch.relu(self.choices[path](x)))


class SuperNetTrainer(nn.Module):
    def __init__(self, lr=0.1):
        super().__init__()
        self.model = SuperNet()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9, weight_decay=4e-3)

    def clear_grads(self):
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.detach_()  # LOOKS-HOT
                p.grad.zero_()  # LOOKS-HOT

    def forward(self, images, targets, arch):
        losses = []
        for path in arch:
            self.clear_grads()
            loss = (self.model(images, path) - targets).square().mean()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.detach())
        return torch.stack(losses)


class SuperNetTrainerNaive(SuperNetTrainer):
    def clear_grads(self):
        self.optimizer.zero_grad(set_to_none=True)


def build():
    torch.manual_seed(0)
    return SuperNetTrainer(), (torch.randn(8, 16), torch.randn(8, 1), [0, 1, 2, 0, 3, 1, 2, 0])


def build_naive_fix():
    slow, inputs = build()
    naive = SuperNetTrainerNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
