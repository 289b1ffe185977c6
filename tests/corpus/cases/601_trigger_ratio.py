"""C601 (after seismic event pickers written with numpy stride tricks and moved to PyTorch): short-term over long-term average trigger."""
import torch
from torch import nn

expected = {
    "case": "C601",
    "polarity": "positive",
    "kind": "contiguous_churn",
    "hot_lines": [28, 35],
    "fix": "drop_contiguous",
    "auto_fix_safe": True,
    "why": "the windows are only reduced over their last axis, which reads the overlapping view just as well; no copy is returned, viewed or written to",
    "hot_share_cpu": 0.42,
    "speedup_cpu": 5.27,
}


class TriggerRatio(nn.Module):
    """Classic STA/LTA characteristic function with an amplitude gate."""

    def __init__(self, short=24, long=160, hop=4):
        super().__init__()
        self.short, self.long, self.hop = short, long, hop
        self.log_gain = nn.Parameter(torch.zeros(1, 3, 1, dtype=torch.float64))

    def _windows(self, trace, length):
        tail = trace[..., self.long - length:]  # both lengths end on the same sample
        return tail.unfold(-1, length, self.hop).contiguous()  # HOT

    def forward(self, trace):
        energy = trace.square() * self.log_gain.exp()
        sta = self._windows(energy, self.short).mean(dim=-1)
        lta = self._windows(energy, self.long).mean(-1)
        swing = trace.unfold(dimension=2, size=self.long, step=self.hop)
        swing = torch.clone(swing, memory_format=torch.contiguous_format)  # HOT
        gate = torch.amax(swing, dim=-1) - torch.amin(swing, dim=-1)
        return sta / (lta + 1e-9) * torch.sigmoid(gate)


class TriggerRatioFixed(TriggerRatio):
    def _windows(self, trace, length):
        return trace[..., self.long - length:].unfold(-1, length, self.hop)

    def forward(self, trace):
        energy = trace.square() * self.log_gain.exp()
        sta = self._windows(energy, self.short).mean(dim=-1)
        lta = self._windows(energy, self.long).mean(-1)
        swing = trace.unfold(dimension=2, size=self.long, step=self.hop)
        gate = torch.amax(swing, dim=-1) - torch.amin(swing, dim=-1)
        return sta / (lta + 1e-9) * torch.sigmoid(gate)


def build():
    torch.manual_seed(0)
    return TriggerRatio(), (torch.randn(6, 3, 4000, dtype=torch.float64),)


def build_fixed():
    slow, inputs = build()
    fast = TriggerRatioFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
