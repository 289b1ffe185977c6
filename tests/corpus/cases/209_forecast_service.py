"""C209 (after chronos-forecasting#184, ludwig#1739): a batched predict() for a web service that records autograd all the way."""
import torch
from torch import nn

expected = {
    "case": "C209",
    "polarity": "positive",
    "kind": "missing_no_grad",
    "hot_lines": [31, 34, 35],
    "fix": "inference_mode_on_predict",
    "auto_fix_safe": True,
    "why": "every result leaves predict() as a Python float, so no graph can be used afterwards",
    "hot_share_cpu": 0.30,
    "speedup_cpu": 1.56,
}


class DemandForecaster(nn.Module):
    def __init__(self, lags=8, depth=8, max_batch=4):
        super().__init__()
        self.max_batch = max_batch
        self.gain = nn.ParameterList(nn.Parameter(torch.rand(lags)) for _ in range(depth))
        self.bias = nn.ParameterList(nn.Parameter(torch.rand(lags)) for _ in range(depth))
        self.out = nn.Linear(lags, 2)

    def network(self, x):
        for g, b in zip(self.gain, self.bias):
            x = x + 0.1 * torch.tanh(x * g + b)
        return self.out(x)

    def predict(self, history):  # HOT
        answers = []
        for part in history.split(self.max_batch):
            mean, width = self.network(part).unbind(dim=-1)  # HOT
            answers.extend((mean - width.abs()).tolist())  # HOT
        return answers

    def forward(self, history):
        return self.predict(history)


class DemandForecasterFixed(DemandForecaster):
    @torch.inference_mode()
    def predict(self, history):
        return super().predict(history)


def build():
    torch.manual_seed(0)
    return DemandForecaster().eval(), (torch.randn(16, 8),)


def build_fixed():
    slow, inputs = build()
    fast = DemandForecasterFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
