"""C1113: the key/value cache of a decoder grows by torch.cat for each new token."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1113",
    "polarity": "positive",
    "kind": "cat_in_loop_kv_cache",
    "hot_lines": [35, 36],
    "fix": "preallocate_and_write_slice",
    "auto_fix_safe": False,
    "why": "the cache is read in every turn, so a list does not help; a buffer of the final length needs a bound that a human has to give",
    "hot_share_cpu": 0.40,
    "speedup_cpu": 1.59,
}


class TokenMixer(nn.Module):
    def __init__(self, width=128, heads=4, steps=24):
        super().__init__()
        self.heads, self.steps = heads, steps
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def split(self, x):
        b = x.size(0)
        return [t.view(b, -1, self.heads, t.size(-1) // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1)]

    @torch.no_grad()
    def forward(self, x, past_k, past_v):
        cache = {"k": past_k, "v": past_v}
        for _ in range(self.steps):
            q, k, v = self.split(x)
            cache["k"] = torch.cat([cache["k"], k], dim=2)  # HOT
            cache["v"] = torch.cat([cache["v"], v], dim=2)  # HOT
            y = F.scaled_dot_product_attention(q, cache["k"], cache["v"])
            x = self.out(y.transpose(1, 2).flatten(2))
        return x


class TokenMixerFixed(TokenMixer):
    @torch.no_grad()
    def forward(self, x, past_k, past_v):
        n, m = past_k.size(2), past_k.size(2) + self.steps
        keys, values = (t.new_empty(*t.shape[:2], m, t.size(3)) for t in (past_k, past_v))
        keys[:, :, :n], values[:, :, :n] = past_k, past_v
        for t in range(n, m):
            q, keys[:, :, t : t + 1], values[:, :, t : t + 1] = self.split(x)
            y = F.scaled_dot_product_attention(q, keys[:, :, : t + 1], values[:, :, : t + 1])
            x = self.out(y.transpose(1, 2).flatten(2))
        return x


def build():
    torch.manual_seed(0)
    return TokenMixer(), (torch.randn(4, 1, 128), torch.randn(4, 4, 400, 32), torch.randn(4, 4, 400, 32))


def build_fixed():
    slow, inputs = build()
    fast = TokenMixerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
