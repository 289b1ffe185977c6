"""C453 negative (after neutron and radar burst analysis): a packed batch is cut by lengths and each burst is transformed at its own length."""
from typing import NamedTuple

import torch
from torch import nn

expected = {
    "case": "C453",
    "polarity": "negative",
    "kind": "batch_loop_gather",
    "hot_lines": [35, 36, 37, 38],
    "must_not": "offer a safe fix that pads the bursts and transforms them in one call",
    "auto_fix_safe": False,
    "why": "lengths come from the data and set the frequency grid, the mean and the spread of each burst; padding changes them all",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.95,
    "speedup_cpu": None,
}


class Packed(NamedTuple):
    samples: torch.Tensor
    lengths: torch.Tensor


class BurstFeatures(nn.Module):
    def __init__(self, peaks=4, out=10):
        super().__init__()
        self.peaks = peaks
        self.head = nn.Linear(2 * peaks, out, dtype=torch.float64)

    def spectra(self, packed):
        rows = []
        for burst in packed.samples.split(packed.lengths.tolist()):
            burst = (burst - burst.mean()) / burst.std()  # LOOKS-HOT
            power = torch.fft.rfft(burst, norm="ortho").abs().square()  # LOOKS-HOT
            top = power.topk(self.peaks)  # LOOKS-HOT
            rows.append(torch.cat((top.values.log1p(), top.indices / burst.numel())))  # LOOKS-HOT
        return torch.stack(rows)

    def forward(self, samples, lengths):
        return self.head(self.spectra(Packed(samples, lengths)))


class BurstFeaturesNaive(BurstFeatures):
    def spectra(self, packed):
        bursts = nn.utils.rnn.pad_sequence(packed.samples.split(packed.lengths.tolist()), batch_first=True)
        bursts = (bursts - bursts.mean(1, keepdim=True)) / bursts.std(1, keepdim=True)
        top = torch.fft.rfft(bursts, norm="ortho").abs().square().topk(self.peaks, dim=1)
        return torch.cat((top.values.log1p(), top.indices / bursts.size(1)), dim=1)


def build():
    torch.manual_seed(0)
    lengths = torch.randint(24, 200, (64,))
    return BurstFeatures(), (torch.randn(int(lengths.sum()), dtype=torch.float64), lengths)


def build_naive_fix():
    slow, inputs = build()
    naive = BurstFeaturesNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
