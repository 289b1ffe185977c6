"""C802 (after ll0ruc/MOGANED#2 and Tacotron 2 re-implementations): attention energies of the padding set to -inf row by row."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C802",
    "polarity": "positive",
    "kind": "mask_loop",
    "hot_lines": [31],
    "fix": "arange_compare+masked_fill",
    "auto_fix_safe": True,
    "why": "the slice t >= text_lengths[i] of every row gets one constant; energies is fresh and nobody else holds it",
    "hot_share_cpu": 0.75,
    "speedup_cpu": 6.32,
}


class TextAttention(nn.Module):
    def __init__(self, decoder_dim=24, encoder_dim=32, attention_dim=16):
        super().__init__()
        self.query_proj = nn.Linear(decoder_dim, attention_dim, bias=False)
        self.memory_proj = nn.Linear(encoder_dim, attention_dim, bias=False)
        self.out = nn.Linear(encoder_dim + decoder_dim, decoder_dim)

    def attend(self, query, memory, text_lengths):
        # query: (B, T_dec, D), memory: (B, T_text, E)
        keys = self.memory_proj(memory)
        energies = torch.bmm(self.query_proj(query), keys.transpose(1, 2))
        for i in range(memory.size(0)):
            energies[i, :, text_lengths[i]:] = float("-inf")  # HOT
        weights = F.softmax(energies, dim=-1)
        return torch.bmm(weights, memory), weights

    def forward(self, query, memory, text_lengths):
        context, weights = self.attend(query, memory, text_lengths)
        return torch.tanh(self.out(torch.cat([context, query], dim=-1))), weights


class TextAttentionFixed(TextAttention):
    def attend(self, query, memory, text_lengths):
        keys = self.memory_proj(memory)
        energies = torch.bmm(self.query_proj(query), keys.transpose(1, 2))
        steps = torch.arange(memory.size(1), device=memory.device)
        energies = energies.masked_fill(steps >= text_lengths.view(-1, 1, 1), float("-inf"))
        weights = F.softmax(energies, dim=-1)
        return torch.bmm(weights, memory), weights


def build():
    torch.manual_seed(0)
    return TextAttention(), (torch.randn(96, 4, 24), torch.randn(96, 16, 32), torch.randint(5, 17, (96,)))


def build_fixed():
    slow, inputs = build()
    fast = TextAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
