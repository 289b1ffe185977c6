"""C1116: the image keys are projected again for every word."""
import torch
from torch import nn

expected = {
    "case": "C1116",
    "polarity": "positive",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [32],
    "fix": "hoist_before_loop",
    "auto_fix_safe": True,
    "why": "memory is not written in the loop and the layer is a plain Linear, so its output is the same in each step",
    "hot_share_cpu": 0.30,
    "speedup_cpu": 1.58,
}


class CaptionLoop(nn.Module):
    def __init__(self, feat=256, word=16, state=32, att=64):
        super().__init__()
        self.enc_att = nn.Linear(feat, att)
        self.dec_att = nn.Linear(state, att)
        self.full_att = nn.Linear(att, 1)
        self.reduce = nn.Linear(feat, state)
        self.cell = nn.GRUCell(word + state, state)

    def forward(self, memory, words):
        h = self.reduce(memory.mean(dim=1))
        states = []
        t = 0
        while t < words.shape[1]:
            att1 = self.enc_att(memory)  # HOT
            att2 = self.dec_att(h)
            e = self.full_att(torch.tanh(att1 + att2.unsqueeze(1))).squeeze(2)
            ctx = torch.bmm(e.softmax(dim=1).unsqueeze(1), memory).squeeze(1)
            h = self.cell(torch.cat([words[:, t], self.reduce(ctx)], dim=1), h)
            states.append(h)
            t += 1
        return torch.stack(states, dim=1)


class CaptionLoopFixed(CaptionLoop):
    def forward(self, memory, words):
        h = self.reduce(memory.mean(dim=1))
        states = []
        att1 = self.enc_att(memory)
        for t in range(words.shape[1]):
            e = self.full_att(torch.tanh(att1 + self.dec_att(h).unsqueeze(1))).squeeze(2)
            ctx = torch.bmm(e.softmax(dim=1).unsqueeze(1), memory).squeeze(1)
            h = self.cell(torch.cat([words[:, t], self.reduce(ctx)], dim=1), h)
            states.append(h)
        return torch.stack(states, dim=1)


def build():
    torch.manual_seed(0)
    return CaptionLoop(), (torch.randn(4, 64, 256), torch.randn(4, 20, 16))


def build_fixed():
    slow, inputs = build()
    fast = CaptionLoopFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
