"""C412 (after attention decoders in speech recognition and captioning, Bahdanau scores): the memory is projected again at every step."""
import torch
from torch import nn

expected = {
    "case": "C412",
    "polarity": "positive",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [35],
    "fix": "hoist_invariant",
    "auto_fix_safe": True,
    "why": "neither the memory nor the weight changes over the steps; only the query does",
    "hot_share_cpu": 0.72,
    "speedup_cpu": 1.83,
}


class Speller(nn.Module):
    """Teacher-forced character decoder over acoustic frames."""

    def __init__(self, chars=31, memory=224, state=48, score=40):
        super().__init__()
        self.chars = nn.Embedding(chars, state)
        self.cell = nn.GRUCell(state + memory, state)
        self.w_memory = nn.Parameter(torch.randn(memory, score) * memory**-0.5)
        self.w_state = nn.Linear(state, score)
        self.v = nn.Linear(score, 1, bias=False)
        self.emit = nn.Linear(state, chars)

    def forward(self, memory, pad, text):
        h = memory.new_zeros(memory.size(0), self.cell.hidden_size)
        context, states = memory.mean(dim=1), []
        for char in self.chars(text).unbind(1):
            h = self.cell(torch.cat([char, context], dim=-1), h)
            energy = self.v(torch.tanh(memory @ self.w_memory + self.w_state(h)[:, None]))  # HOT
            weights = energy.squeeze(-1).masked_fill(pad, float("-inf")).softmax(-1)
            context = torch.bmm(weights[:, None], memory)[:, 0]
            states.append(h)
        return self.emit(torch.stack(states, dim=1))


class SpellerFixed(Speller):
    def forward(self, memory, pad, text):
        h = memory.new_zeros(memory.size(0), self.cell.hidden_size)
        context, states = memory.mean(dim=1), []
        keys = memory @ self.w_memory
        for char in self.chars(text).unbind(1):
            h = self.cell(torch.cat([char, context], dim=-1), h)
            energy = self.v(torch.tanh(keys + self.w_state(h)[:, None]))
            weights = energy.squeeze(-1).masked_fill(pad, float("-inf")).softmax(-1)
            context = torch.bmm(weights[:, None], memory)[:, 0]
            states.append(h)
        return self.emit(torch.stack(states, dim=1))


def build():
    torch.manual_seed(0)
    pad = torch.arange(120) >= torch.tensor([120, 97, 64, 110])[:, None]
    return Speller(), (torch.randn(4, 120, 224), pad, torch.randint(0, 31, (4, 24)))


def build_fixed():
    slow, inputs = build()
    fast = SpellerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
