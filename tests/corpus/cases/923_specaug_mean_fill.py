"""C923 (after pytorch/audio#4015): SpecAugment reads its fill value with .item() before every time or frequency mask."""
import torch
from torch import Tensor, nn

expected = {
    "case": "C923",
    "polarity": "positive",
    "kind": "host_sync_item",
    "hot_lines": [34],
    "fix": "keep_mask_value_on_device",
    "auto_fix_safe": True,
    "why": "the number only feeds masked_fill, which takes a 0-d tensor; .item() cut the graph, so the rewrite needs .detach()",
    "gpu_only": True,
    "hot_share_cpu": 0.05,
    "speedup_cpu": 1.02,
}


def mask_along_axis(specgram: Tensor, start: Tensor, width: Tensor, mask_value, axis: int) -> Tensor:
    pos = torch.arange(specgram.shape[axis], device=specgram.device)
    mask = (pos >= start[:, None]) & (pos < (start + width)[:, None])
    mask = mask.unsqueeze(1) if axis == 2 else mask.unsqueeze(2)
    return specgram.masked_fill(mask, mask_value)


class FeatureProcessing(nn.Module):
    def __init__(self, n_mels=40, out_dim=32):
        super().__init__()
        self.cmvn = nn.LayerNorm(n_mels)
        self.proj = nn.Linear(n_mels, out_dim)

    def augment(self, feats, starts, widths):
        for k in range(starts.size(1)):
            mask_value = feats.mean().item()  # HOT
            feats = mask_along_axis(feats, starts[:, k], widths[:, k], mask_value, axis=1 + k % 2)
        return feats

    def forward(self, feats, starts, widths):
        feats = self.augment(self.cmvn(feats), starts, widths)
        return self.proj(feats)


class FeatureProcessingFixed(FeatureProcessing):
    def augment(self, feats, starts, widths):
        for k in range(starts.size(1)):
            mask_value = feats.detach().mean()
            feats = mask_along_axis(feats, starts[:, k], widths[:, k], mask_value, axis=1 + k % 2)
        return feats


def build():
    torch.manual_seed(0)
    feats = torch.randn(8, 200, 40)
    return FeatureProcessing(), (feats, torch.randint(0, 30, (8, 6)), torch.randint(1, 9, (8, 6)))


def build_fixed():
    slow, inputs = build()
    fast = FeatureProcessingFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
