"""C309 (after attorch#11, rten#1441, ipex-llm#1150): the addmm of the input half of a gated unit repeated per time step."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C309",
    "polarity": "positive",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [36],
    "fix": "hoist_input_projection",
    "auto_fix_safe": True,
    "why": "w_i, b_i and frames do not change in the loop; one product over all steps gives the same rows",
    "hot_share_cpu": 0.41,
    "speedup_cpu": 1.84,
}


class MinimalGate(nn.Module):
    def __init__(self, width=1024, state=64):
        super().__init__()
        self.w_i = nn.Parameter(torch.randn(2 * state, width) / width**0.5)
        self.b_i = nn.Parameter(torch.zeros(2 * state))
        self.w_h = nn.Parameter(torch.randn(2 * state, state) / state**0.5)

    def advance(self, drive, h):
        forget_x, new_x = drive.chunk(2, dim=-1)
        forget_h, new_h = F.linear(h, self.w_h).chunk(2, dim=-1)
        gate = torch.sigmoid(forget_x + forget_h)
        return torch.lerp(h, torch.tanh(new_x + gate * new_h), gate)

    def forward(self, frames):
        h = torch.zeros(frames.size(0), self.w_h.size(1), dtype=frames.dtype, device=frames.device)
        t = 0
        while t < frames.shape[1]:
            drive = torch.addmm(self.b_i, frames[:, t], self.w_i.t())  # HOT
            h = self.advance(drive, h)
            t += 1
        return h


class MinimalGateFixed(MinimalGate):
    def forward(self, frames):
        h = torch.zeros(frames.size(0), self.w_h.size(1), dtype=frames.dtype, device=frames.device)
        for drive in F.linear(frames, self.w_i, self.b_i).unbind(1):
            h = self.advance(drive, h)
        return h


def build():
    torch.manual_seed(0)
    return MinimalGate(), (torch.randn(2, 96, 1024),)


def build_fixed():
    slow, inputs = build()
    fast = MinimalGateFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
