"""C205 (after BRITS/SAITS style imputers, pytorch#57515): gaps of several sensor rates filled through a mask on both sides."""
import torch
from torch import nn

expected = {
    "case": "C205",
    "polarity": "positive",
    "kind": "bool_mask_assign",
    "hot_lines": [27],
    "fix": "torch.where",
    "auto_fix_safe": True,
    "why": "calm is the fresh result of a product used nowhere else, and where() broadcasts the prior itself, so expand_as goes too",
    "hot_share_cpu": 0.79,
    "speedup_cpu": 3.23,
}


class GapFiller(nn.Module):
    def __init__(self, sensors=24, rates=3):
        super().__init__()
        self.gain = nn.ParameterList(nn.Parameter(torch.rand(sensors)) for _ in range(rates))
        self.prior = nn.ParameterList(nn.Parameter(torch.randn(sensors)) for _ in range(rates))
        self.read = nn.Linear(sensors, 4)

    def fill(self, lvl, series, gaps):
        calm = series * self.gain[lvl]
        calm[gaps] = self.prior[lvl].expand_as(calm)[gaps]  # HOT
        return calm

    def forward(self, tracks, gaps):
        summary = []
        for lvl, (series, holes) in enumerate(zip(tracks, gaps)):
            summary.append(self.fill(lvl, series, holes).mean(dim=1))
        return self.read(torch.stack(summary, dim=1))


class GapFillerFixed(GapFiller):
    def fill(self, lvl, series, gaps):
        calm = series * self.gain[lvl]
        return torch.where(gaps, self.prior[lvl], calm)


def build():
    torch.manual_seed(0)
    steps = (240, 120, 30)
    tracks = [torch.randn(8, t, 24) for t in steps]
    return GapFiller(), (tracks, [torch.rand(8, t, 24) < 0.4 for t in steps])


def build_fixed():
    slow, inputs = build()
    fast = GapFillerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
