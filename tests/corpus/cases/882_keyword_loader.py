"""C882 (after lucidrains/audiolm-pytorch#56, Alibaba-MIIL/AudioClassfication#3, wespeaker#402): clips are read and augmented in the main process."""
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

expected = {
    "case": "C882",
    "polarity": "positive",
    "kind": "dataloader_wait",
    "hot_lines": [46, 50],
    "fix": "num_workers+persistent_workers",
    "auto_fix_safe": False,
    "why": "num_workers is left at 0, so each batch is read while the model waits; workers change seeding, memory and start-up: propose only",
    "hot_share_cpu": 0.99,
    "speedup_cpu": 1.91,
}


class KeywordClips(Dataset):
    def __init__(self, files=48, samples=2000):
        self.files, self.samples = files, samples

    def __len__(self):
        return self.files

    def read(self, index):
        time.sleep(0.003)  # network share
        t = np.arange(self.samples, dtype=np.float32)
        return np.sin(t * (0.01 + 0.002 * index))

    def __getitem__(self, index):
        wav = self.read(index)
        wav = wav / max(np.abs(wav).max(), 1e-4)
        frames = wav[: 1984].reshape(31, 64) * np.hanning(64)
        spec = np.log1p(np.abs(np.fft.rfft(frames))).astype(np.float32)
        return {"spec": spec, "label": index % 4}


class Epoch(nn.Module):
    def __init__(self, **loader_args):
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(31 * 33, 64), nn.ReLU(), nn.Linear(64, 4))
        self.loader = DataLoader(KeywordClips(), batch_size=12, drop_last=True, **loader_args)  # HOT

    def forward(self):
        losses = []
        for batch in self.loader:  # HOT
            logits = self.net(batch["spec"])
            losses.append(nn.functional.cross_entropy(logits, batch["label"]))
        return torch.stack(losses)


def build():
    torch.manual_seed(0)
    return Epoch(), ()


def build_fixed():
    torch.manual_seed(0)
    return Epoch(num_workers=2, persistent_workers=True, prefetch_factor=2), ()
