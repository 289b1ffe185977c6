"""C926 (after huggingface/transformers#44745 and #44737): XLNet's relative positions are made on the CPU, then moved, per forward."""
import torch
from torch import nn

expected = {
    "case": "C926",
    "polarity": "positive",
    "kind": "cpu_tensor_then_to_device",
    "hot_lines": [32, 34, 41, 42],
    "fix": "device_kwarg_on_arange",
    "auto_fix_safe": False,
    "why": "device= on both arange calls removes the copy, but the sines then run on the device and may differ in the last bit",
    "gpu_only": True,
    "hot_share_cpu": 0.13,
    "speedup_cpu": 1.00,
}


class RelativeAttention(nn.Module):
    def __init__(self, d_model=64, n_head=4, clamp_len=-1):
        super().__init__()
        self.d_model, self.n_head, self.clamp_len = d_model, n_head, clamp_len
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.r = nn.Linear(d_model, d_model, bias=False)

    @staticmethod
    def positional_embedding(pos_seq, inv_freq):
        sinusoid_inp = torch.einsum("i,d->id", pos_seq, inv_freq)
        return torch.cat([torch.sin(sinusoid_inp), torch.cos(sinusoid_inp)], dim=-1)

    def relative_positional_encoding(self, qlen, klen, device=None):
        freq_seq = torch.arange(0, self.d_model, 2.0, device=device)  # HOT
        inv_freq = 1 / torch.pow(10000, (freq_seq / self.d_model))
        fwd_pos_seq = torch.arange(klen, -qlen, -1.0, device=device)  # HOT
        if self.clamp_len > 0:
            fwd_pos_seq = fwd_pos_seq.clamp(-self.clamp_len, self.clamp_len)
        return self.positional_embedding(fwd_pos_seq, inv_freq)

    def forward(self, hidden):
        b, n, _ = hidden.shape
        pos_emb = self.relative_positional_encoding(n, n)  # HOT
        pos_emb = pos_emb.to(hidden.device)  # HOT
        q, k, v = self.qkv(hidden).view(b, n, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        r = self.r(pos_emb).view(2 * n, self.n_head, -1).permute(1, 2, 0)
        bd = (q @ r).reshape(b, self.n_head, 2 * n, n)[:, :, 1:].reshape(b, self.n_head, n, 2 * n - 1)
        score = (q @ k.transpose(-1, -2) + bd[..., :n]) / (q.size(-1) ** 0.5)
        return (score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1)


class RelativeAttentionFixed(RelativeAttention):
    def relative_positional_encoding(self, qlen, klen, device=None):
        return super().relative_positional_encoding(qlen, klen, self.r.weight.device)


def build():
    torch.manual_seed(0)
    return RelativeAttention(), (torch.randn(1, 96, 64),)


def build_fixed():
    slow, inputs = build()
    fast = RelativeAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
