"""C1109: the start column and the causal mask are made on the host and shipped each step."""
from dataclasses import dataclass

import torch
from torch import nn

expected = {
    "case": "C1109",
    "polarity": "positive",
    "kind": "cpu_tensor_then_to_device",
    "hot_lines": [38, 40],
    "fix": "device_kwarg",
    "auto_fix_safe": True,
    "why": "full and ones take device= and give the same values there; triu then runs on the device as well",
    "gpu_only": True,
    "hot_share_cpu": 0.03,
    "speedup_cpu": 1.05,
}


@dataclass(frozen=True)
class DecoderConfig:
    vocab: int = 200
    width: int = 64
    heads: int = 4
    bos: int = 1


class PrefixDecoder(nn.Module):
    def __init__(self, cfg: DecoderConfig = DecoderConfig()) -> None:
        super().__init__()
        self.cfg = cfg
        self.table = nn.Embedding(cfg.vocab, cfg.width)
        self.attn = nn.MultiheadAttention(cfg.width, cfg.heads, batch_first=True)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        b, n = tokens.shape
        start = torch.full(size=(b, 1), fill_value=self.cfg.bos).to(device=tokens.device, non_blocking=True)  # HOT
        x = self.table(torch.cat([start, tokens[:, :-1]], dim=1))
        hidden = torch.ones(n, n, dtype=torch.bool).triu(diagonal=1).to(device=tokens.device)  # HOT
        return self.attn(x, x, x, attn_mask=hidden, need_weights=False)[0]


class PrefixDecoderFixed(PrefixDecoder):
    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        b, n = tokens.shape
        start = torch.full(size=(b, 1), fill_value=self.cfg.bos, device=tokens.device)
        x = self.table(torch.cat([start, tokens[:, :-1]], dim=1))
        hidden = torch.ones(n, n, dtype=torch.bool, device=tokens.device).triu(diagonal=1)
        return self.attn(x, x, x, attn_mask=hidden, need_weights=False)[0]


def build():
    torch.manual_seed(0)
    return PrefixDecoder(), (torch.randint(2, 200, (8, 128)),)


def build_fixed():
    slow, inputs = build()
    fast = PrefixDecoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
