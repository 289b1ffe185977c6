"""C963 negative (after rohithreddy024/Text-Summarizer-Pytorch model.py, decoder_attention): each step attends to all earlier states."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C963",
    "polarity": "negative",
    "kind": "cat_in_loop",
    "hot_lines": [31],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the grown prev_s is handed back and read by the next step's attention; only a preallocated buffer can help",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.07,
    "speedup_cpu": None,
}


class DecoderAttention(nn.Module):
    def __init__(self, hidden_dim):
        super().__init__()
        self.W_s = nn.Linear(hidden_dim, hidden_dim)

    def forward(self, s_t, prev_s=None):
        if prev_s is None:
            return torch.zeros_like(s_t), s_t.unsqueeze(1)
        et = torch.bmm(prev_s, self.W_s(s_t).unsqueeze(2))
        at = F.softmax(et, dim=1)
        ct_d = torch.bmm(at.transpose(1, 2), prev_s).squeeze(1)
        prev_s = torch.cat([prev_s, s_t.unsqueeze(1)], dim=1)  # LOOKS-HOT
        return ct_d, prev_s


class Decoder(nn.Module):
    def __init__(self, hidden_dim=64):
        super().__init__()
        self.dec_attention = DecoderAttention(hidden_dim)
        self.gru = nn.GRUCell(2 * hidden_dim, hidden_dim)

    def forward(self, inp, s_t):
        prev_s, outs = None, []
        for t in range(inp.size(1)):
            ct_d, prev_s = self.dec_attention(s_t, prev_s)
            s_t = self.gru(torch.cat([inp[:, t], ct_d], dim=1), s_t)
            outs.append(s_t)
        return torch.stack(outs, 1), prev_s


class DecoderNaive(Decoder):
    def forward(self, inp, s_t):
        states, outs = [], []
        for t in range(inp.size(1)):
            ct_d, _ = self.dec_attention(s_t, states[0].unsqueeze(1) if states else None)
            states.append(s_t)
            s_t = self.gru(torch.cat([inp[:, t], ct_d], dim=1), s_t)
            outs.append(s_t)
        return torch.stack(outs, 1), torch.stack(states, 1)


def build():
    torch.manual_seed(0)
    return Decoder(), (torch.randn(16, 80, 64), torch.randn(16, 64))


def build_naive_fix():
    slow, inputs = build()
    naive = DecoderNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
