"""C829 (after rasbt/LLMs-from-scratch#705, foundation-model-stack#84): the key/value cache is rebuilt with torch.cat for every token."""
import torch
from torch import nn

expected = {
    "case": "C829",
    "polarity": "positive",
    "kind": "cat_in_loop_kv_cache",
    "hot_lines": [29, 30],
    "fix": "preallocated_cache",
    "auto_fix_safe": False,
    "why": "the cache is read at every step, so a list will not do; a buffer needs a maximum length and a position counter",
    "hot_share_cpu": 0.25,
    "speedup_cpu": 1.18,
}


class CachedGPT(nn.Module):
    def __init__(self, vocab_size=200, emb_dim=64, num_heads=4):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, emb_dim // num_heads
        self.tok_emb = nn.Embedding(vocab_size, emb_dim)
        self.qkv = nn.Linear(emb_dim, 3 * emb_dim)

    def reset_cache(self, b):
        self.cache_k = self.cache_v = torch.zeros(b, self.num_heads, 0, self.head_dim)

    def update(self, k, v):
        self.cache_k = torch.cat([self.cache_k, k], dim=2)  # HOT
        self.cache_v = torch.cat([self.cache_v, v], dim=2)  # HOT
        return self.cache_k, self.cache_v

    def attention(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        k, v = self.update(k, v)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=n > 1)
        return x + y.transpose(1, 2).reshape(b, n, d)

    @torch.no_grad()
    def forward(self, idx, max_new_tokens=96):
        self.reset_cache(idx.size(0))
        new_tokens, next_idx = [], idx
        for _ in range(max_new_tokens):
            h = self.attention(self.tok_emb(next_idx))
            next_idx = nn.functional.linear(h[:, -1:], self.tok_emb.weight).argmax(dim=-1)
            new_tokens.append(next_idx)
        return torch.cat([idx] + new_tokens, dim=1), h


class CachedGPTFixed(CachedGPT):
    def reset_cache(self, b, max_len=256):
        self.pos, self.buf = 0, torch.empty(2, b, self.num_heads, max_len, self.head_dim)

    def update(self, k, v):
        start, self.pos = self.pos, self.pos + k.size(2)
        self.buf[0, :, :, start:self.pos] = k
        self.buf[1, :, :, start:self.pos] = v
        return self.buf[:, :, :, :self.pos]


def build(gpt=CachedGPT):
    torch.manual_seed(0)
    return gpt().eval(), (torch.randint(0, 200, (16, 96)),)


def build_fixed():
    return build(CachedGPTFixed)
