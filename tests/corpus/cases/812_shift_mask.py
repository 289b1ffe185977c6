"""C812 (after Project-MONAI/MONAI#8973 and SwinUNETR): the shifted-window mask is built again in every forward."""
import torch
import torch.nn as nn

expected = {
    "case": "C812",
    "polarity": "positive",
    "kind": "repeated_invariant_compute",
    "hot_lines": [36, 38, 39, 40, 44],
    "fix": "cache_per_size",
    "auto_fix_safe": False,
    "why": "the mask depends on height, width and device only; a cache or buffer must be keyed by them, which is a design choice",
    "hot_share_cpu": 0.37,
    "speedup_cpu": 1.61,
}


def window_partition(x, ws):
    b, h, w, c = x.shape
    x = x.view(b, h // ws, ws, w // ws, ws, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, ws * ws, c)


class ShiftedWindowBlock(nn.Module):
    def __init__(self, dim=16, window_size=4, shift_size=2):
        super().__init__()
        self.window_size, self.shift_size = window_size, shift_size
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def compute_mask(self, h, w, device):
        img_mask = torch.zeros((1, h, w, 1), device=device)
        ws, ss, cnt = self.window_size, self.shift_size, 0
        for hs in (slice(-ws), slice(-ws, -ss), slice(-ss, None)):
            for vs in (slice(-ws), slice(-ws, -ss), slice(-ss, None)):
                img_mask[:, hs, vs, :] = cnt  # HOT
                cnt += 1
        windows = window_partition(img_mask, ws).squeeze(-1)  # HOT
        attn_mask = windows.unsqueeze(1) - windows.unsqueeze(2)  # HOT
        return attn_mask.masked_fill(attn_mask != 0, -100.0)  # HOT

    def forward(self, x):
        b, h, w, c = x.shape
        mask = self.compute_mask(h, w, x.device)  # HOT
        x = window_partition(torch.roll(x, (-self.shift_size, -self.shift_size), dims=(1, 2)), self.window_size)
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        attn = (q @ k.transpose(-2, -1)) * c ** -0.5
        attn = attn.view(b, mask.size(0), *attn.shape[1:]) + mask
        return self.proj(attn.flatten(0, 1).softmax(dim=-1) @ v)


class ShiftedWindowBlockFixed(ShiftedWindowBlock):
    def compute_mask(self, h, w, device):
        cache = self.__dict__.setdefault("mask_cache", {})
        if (h, w, device) not in cache:
            cache[h, w, device] = super().compute_mask(h, w, device)
        return cache[h, w, device]


def build():
    torch.manual_seed(0)
    return ShiftedWindowBlock(), (torch.randn(2, 16, 16, 16),)


def build_fixed():
    slow, inputs = build()
    fast = ShiftedWindowBlockFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
