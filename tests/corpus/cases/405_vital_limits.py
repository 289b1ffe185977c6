"""C405 (after clinical time-series pipelines, intensive care benchmarks): implausible values replaced one named channel at a time."""
import torch
from torch import nn

expected = {
    "case": "C405",
    "polarity": "positive",
    "kind": "where_loop",
    "hot_lines": [35, 36, 37],
    "fix": "broadcast_where",
    "auto_fix_safe": False,
    "why": "channels are independent, but their limits live in a dict of Python floats that anyone may change; they need a tensor beside it",
    "hot_share_cpu": 0.80,
    "speedup_cpu": 12.71,
}

VITALS = {f"{site}_{what}": (lo, hi) for site in ("icu", "ward", "er", "or", "lab", "amb", "step", "home")
          for what, lo, hi in (("hr", 20.0, 260.0), ("sbp", 30.0, 290.0), ("spo2", 40.0, 100.0),
                               ("temp", 28.0, 43.5), ("resp", 2.0, 80.0), ("glu", 10.0, 900.0),
                               ("dbp", 10.0, 200.0), ("lac", 0.1, 30.0), ("ph", 6.5, 8.0), ("fio2", 21.0, 100.0))}


class VitalsEncoder(nn.Module):
    def __init__(self, limits=VITALS, hidden=24):
        super().__init__()
        self.limits = dict(limits)
        self.typical = nn.Parameter(torch.tensor([(lo + hi) / 2 for lo, hi in limits.values()]))
        self.proj = nn.Linear(2 * len(limits), hidden)

    def _screen(self, x):
        """Values and a flag per channel; gaps and readings outside the limits become the learned typical value."""
        values, flags = [], []
        for j, (name, (lo, hi)) in enumerate(self.limits.items()):
            channel = x[:, :, j]
            bad = torch.isnan(channel) | (channel < lo) | (channel > hi)  # HOT
            values.append(torch.where(bad, self.typical[j], channel) / hi)  # HOT
            flags.append(bad.to(x.dtype))  # HOT
        return torch.stack(values + flags, dim=-1)

    def forward(self, x):
        return self.proj(self._screen(x)).relu().mean(dim=1)


class VitalsEncoderFixed(VitalsEncoder):
    def _screen(self, x):
        lo, hi = torch.tensor(list(self.limits.values()), dtype=x.dtype).unbind(dim=1)
        bad = torch.isnan(x) | (x < lo) | (x > hi)
        return torch.cat([torch.where(bad, self.typical, x) / hi, bad.to(x.dtype)], dim=-1)


def build():
    torch.manual_seed(0)
    x = torch.rand(6, 36, len(VITALS)) * 320 - 10
    x[torch.rand(x.shape) < 0.2] = float("nan")
    return VitalsEncoder(), (x,)


def build_fixed():
    slow, inputs = build()
    fast = VitalsEncoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
