"""C303 (after transformers#24115, foundation-model-stack#84, kornia-rs#903): past keys and values copied whole at each step."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C303",
    "polarity": "positive",
    "kind": "cat_in_loop_kv_cache",
    "hot_lines": [28, 29],
    "fix": "preallocate_and_write_slice",
    "auto_fix_safe": False,
    "why": "attention reads the grown cache in every step, so only a preallocated buffer helps; it needs a length bound to be chosen",
    "hot_share_cpu": 0.27,
    "speedup_cpu": 1.22,
}


class RecallDecoder(nn.Module):
    def __init__(self, width=48, heads=8, dim=64, layers=2, steps=40):
        super().__init__()
        self.heads, self.steps = heads, steps
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * heads * dim, bias=False) for _ in range(layers))
        self.out = nn.ModuleList(nn.Linear(heads * dim, width, bias=False) for _ in range(layers))

    def remember(self, cache, slot, at, k, v):
        if slot in cache:
            k = torch.cat([cache[slot][0], k], dim=2)  # HOT
            v = torch.cat([cache[slot][1], v], dim=2)  # HOT
        cache[slot] = (k, v)
        return k, v

    def step(self, x, cache, at):
        for slot, (qkv, out) in enumerate(zip(self.qkv, self.out)):
            q, k, v = qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            k, v = self.remember(cache, slot, at, k, v)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=at == 0)
            x = F.layer_norm(x + out(y.transpose(1, 2).flatten(2)), x.shape[-1:])
        return x[:, -1:]

    @torch.no_grad()
    def forward(self, prompt):
        cache = {}
        spoken = [self.step(prompt, cache, at=0)]
        for at in range(prompt.size(1), prompt.size(1) + self.steps):
            spoken.append(self.step(spoken[-1], cache, at))
        return torch.cat(spoken, dim=1)


class RecallDecoderFixed(RecallDecoder):
    def remember(self, cache, slot, at, k, v):
        b, h, n, d = k.shape
        if slot not in cache:
            cache[slot] = k.new_empty((2, b, h, n + self.steps, d))
        cache[slot][0, :, :, at : at + n] = k
        cache[slot][1, :, :, at : at + n] = v
        return cache[slot][:, :, :, : at + n].unbind(0)


def build():
    torch.manual_seed(0)
    return RecallDecoder(), (torch.randn(4, 80, 48),)


def build_fixed():
    slow, inputs = build()
    fast = RecallDecoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
