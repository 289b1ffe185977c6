"""C927 (after d2l-ai/d2l-en linear-regression-scratch and mlp-scratch, d2l.sgd): the scratch optimizer zeroes each .grad in its loop."""
import torch
from torch import nn

expected = {
    "case": "C927",
    "polarity": "positive",
    "kind": "zero_grad_loop",
    "hot_lines": [23],
    "fix": "param.grad = None",
    "auto_fix_safe": True,
    "why": "each parameter gets a gradient in each batch and none is read before backward; None also saves the accumulation",
    "hot_share_cpu": 0.02,
    "speedup_cpu": 1.06,
}


def sgd(params, lr, batch_size):
    """Minibatch stochastic gradient descent."""
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad / batch_size
            param.grad.data.zero_()  # HOT


def sgd_fixed(params, lr, batch_size):
    with torch.no_grad():
        for param in params:
            param -= lr * param.grad / batch_size
            param.grad = None


class ScratchMLP(nn.Module):
    updater = staticmethod(sgd)

    def __init__(self, num_inputs=128, num_hiddens=128, depth=8, lr=0.02):
        super().__init__()
        sizes = [num_inputs] + [num_hiddens] * depth
        self.W = nn.ParameterList(torch.randn(i, o) * i**-0.5 for i, o in zip(sizes, sizes[1:]))
        self.b = nn.ParameterList(torch.zeros(o) for o in sizes[1:])
        self.lr = lr

    def net(self, X):
        for W, b in zip(self.W, self.b):
            X = torch.relu(X @ W + b)
        return X

    def forward(self, X, y):
        loss = (self.net(X) - y) ** 2 / 2
        loss.sum().backward()
        self.updater([*self.W, *self.b], self.lr, X.shape[0])
        return loss.detach().mean()


class ScratchMLPFixed(ScratchMLP):
    updater = staticmethod(sgd_fixed)


def build():
    torch.manual_seed(0)
    return ScratchMLP(), (torch.randn(4, 128), torch.rand(4, 128))


def build_fixed():
    slow, inputs = build()
    fast = ScratchMLPFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
