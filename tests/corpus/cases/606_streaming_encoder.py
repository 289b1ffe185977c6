"""C606 (after streaming speech encoders with a limited left context): frames arrive one by one and look back at stored keys and values."""
import torch
from torch import nn

expected = {
    "case": "C606",
    "polarity": "positive",
    "kind": "cat_in_loop_kv_cache",
    "hot_lines": [25],
    "fix": "preallocate_cache",
    "auto_fix_safe": False,
    "why": "the grown memory is read in the same step; a preallocated one (or one trimmed to the left context) needs a length and a write position, which changes what the layer keeps between calls",
    "hot_share_cpu": 0.35,
    "speedup_cpu": 1.70,
}


class LookBack(nn.Module):
    def __init__(self, width, heads=1, left=12):
        super().__init__()
        self.heads, self.left = heads, left
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def store(self, past, now):
        return now if past is None else torch.cat([past, now], dim=-2)  # HOT

    def forward(self, x, past):
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        memory = self.store(past, qkv[1:])
        key, value = memory[..., -self.left:, :]
        y = nn.functional.scaled_dot_product_attention(qkv[0], key, value)
        return x + self.out(y.transpose(1, 2).flatten(2)), memory


class StreamingEncoder(nn.Module):
    def __init__(self, mels=20, width=32, depth=1):
        super().__init__()
        self.lift = nn.Linear(mels, width)
        self.layers = nn.ModuleList(LookBack(width) for _ in range(depth))

    @torch.inference_mode()
    def forward(self, mel):
        memory, heard = {}, []
        for x in self.lift(mel).split(1, dim=1):
            for name, layer in self.layers.named_children():
                x, memory[name] = layer(x, memory.get(name))
            heard.append(x)
        return torch.cat(heard, dim=1)


class RoomyLookBack(LookBack):
    def store(self, past, now, most=512):
        if past is None:
            self.room, self.used = now.new_empty(*now.shape[:3], most, now.size(-1)), 0
        self.used += now.size(-2)
        self.room[..., self.used - now.size(-2):self.used, :] = now
        return self.room[..., :self.used, :]


def build():
    torch.manual_seed(0)
    return StreamingEncoder(), (torch.randn(48, 256, 20),)


def build_fixed():
    fast, inputs = build()
    for layer in fast.layers:
        layer.__class__ = RoomyLookBack
    return fast, inputs
