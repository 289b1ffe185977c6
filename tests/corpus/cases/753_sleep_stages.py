"""D753 negative (kind of project: sleep staging from EEG nights held in memory): a loader without workers that costs next to nothing."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

expected = {
    "case": "D753",
    "polarity": "negative",
    "kind": "dataloader_wait",
    "hot_lines": [36, 45],
    "must_not": "flag dataloader_wait",
    "auto_fix_safe": False,
    "why": "an item is a slice of a tensor in memory and already a batch; worker processes only add start-up and copies between processes",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.02,
    "speedup_cpu": 0.03,
}


class Night(Dataset):
    """One item is a run of consecutive 30-second epochs."""

    def __init__(self, signal, run=16):
        self.runs = signal.split(run)

    def __len__(self):
        return len(self.runs)

    def __getitem__(self, k):
        return self.runs[k]


class Stager(nn.Module):
    def __init__(self, signal, stages=5, **loading):
        super().__init__()
        self.loader = DataLoader(Night(signal), batch_size=None, shuffle=False, **loading)  # LOOKS-HOT
        self.features = nn.Sequential(
            nn.Conv1d(2, 16, 25, stride=3), nn.ReLU(), nn.MaxPool1d(4),
            nn.Conv1d(16, 32, 9), nn.ReLU(), nn.AdaptiveAvgPool1d(4),
        )
        self.stage = nn.Linear(128, stages)

    def forward(self):
        hypnogram = []
        for run in self.loader:  # LOOKS-HOT
            hypnogram.append(self.stage(self.features(run).flatten(1)).log_softmax(dim=-1))
        return torch.cat(hypnogram)


def build(**loading):
    torch.manual_seed(0)
    return Stager(torch.randn(64, 2, 1500), **loading), ()


def build_naive_fix():
    return build(num_workers=2)
