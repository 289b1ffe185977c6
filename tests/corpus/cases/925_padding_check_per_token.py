"""C925 (after huggingface/transformers#43088, _ignore_causal_mask_sdpa): the prompt's padding mask is tested with .all() per token."""
import torch
from torch import nn

expected = {
    "case": "C925",
    "polarity": "positive",
    "kind": "loop_invariant_host_sync",
    "hot_lines": [21, 42],
    "fix": "hoist_the_check_out_of_the_loop",
    "auto_fix_safe": True,
    "why": "padding_mask is not written while decoding, so one read before the loop gives the same answer for every token",
    "gpu_only": True,
    "hot_share_cpu": 0.03,
    "speedup_cpu": 1.04,
}


def _ignore_mask_sdpa(padding_mask):
    # skip the mask when there is no padding, so that the fast kernel can be used
    return padding_mask is None or bool(padding_mask.all())  # HOT


class PrefixDecoder(nn.Module):
    def __init__(self, hidden_size=32, max_new_tokens=48):
        super().__init__()
        self.q_proj = nn.Linear(hidden_size, hidden_size)
        self.o_proj = nn.Linear(hidden_size, hidden_size)
        self.max_new_tokens = max_new_tokens
        self.scaling = hidden_size**-0.5

    def attend(self, h, keys, mask):
        scores = torch.einsum("bd,bnd->bn", self.q_proj(h), keys) * self.scaling
        if mask is not None:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        return torch.einsum("bn,bnd->bd", scores.softmax(-1), keys)

    def forward(self, keys, padding_mask):
        h = keys.mean(dim=1)
        out = []
        for _ in range(self.max_new_tokens):
            mask = None if _ignore_mask_sdpa(padding_mask) else padding_mask  # HOT
            h = torch.tanh(self.o_proj(self.attend(h, keys, mask)) + h)
            out.append(h)
        return torch.stack(out, dim=1)


class PrefixDecoderFixed(PrefixDecoder):
    def forward(self, keys, padding_mask):
        h = keys.mean(dim=1)
        out = []
        mask = None if _ignore_mask_sdpa(padding_mask) else padding_mask
        for _ in range(self.max_new_tokens):
            h = torch.tanh(self.o_proj(self.attend(h, keys, mask)) + h)
            out.append(h)
        return torch.stack(out, dim=1)


def build():
    torch.manual_seed(0)
    lengths = torch.tensor([64, 51, 64, 40])
    return PrefixDecoder(), (torch.randn(4, 64, 32), torch.arange(64) < lengths[:, None])


def build_fixed():
    slow, inputs = build()
    fast = PrefixDecoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
