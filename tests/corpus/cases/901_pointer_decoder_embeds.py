"""C901 (after abisee/pointer-generator model.py and its PyTorch ports): decoder inputs embedded token by token in a list."""
import torch
from torch import nn

expected = {
    "case": "C901",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [27],
    "fix": "one_lookup_then_unbind",
    "auto_fix_safe": True,
    "why": "teacher forcing: all decoder tokens are known, so one lookup on dec_batch and unbind(1) gives the same list",
    "hot_share_cpu": 0.21,
    "speedup_cpu": 1.27,
}


class PointerGenDecoder(nn.Module):
    def __init__(self, vocab_size=5000, emb_dim=64, hidden_dim=32):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, emb_dim, padding_idx=0)
        self.decoder = nn.GRUCell(emb_dim, hidden_dim)
        self.v_p = nn.Linear(hidden_dim + emb_dim, 1)

    def embed_targets(self, dec_batch):
        # list of max_dec_steps tensors, (batch_size, emb_dim) each
        return [self.embedding(x.squeeze(1)) for x in torch.split(dec_batch, 1, dim=1)]  # HOT

    def forward(self, dec_batch, h_t):
        emb_dec_inputs = self.embed_targets(dec_batch)
        states = []
        for emb in emb_dec_inputs:
            h_t = self.decoder(emb, h_t)
            states.append(h_t)
        states = torch.stack(states, 1)
        p_gens = torch.sigmoid(self.v_p(torch.cat([states, torch.stack(emb_dec_inputs, 1)], -1)))
        return states, p_gens.squeeze(-1)


class PointerGenDecoderFixed(PointerGenDecoder):
    def embed_targets(self, dec_batch):
        return self.embedding(dec_batch).unbind(1)


def build():
    torch.manual_seed(0)
    return PointerGenDecoder().eval(), (torch.randint(0, 5000, (8, 100)), torch.zeros(8, 32))


def build_fixed():
    slow, inputs = build()
    fast = PointerGenDecoderFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
