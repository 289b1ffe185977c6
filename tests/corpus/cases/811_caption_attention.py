"""C811 (after sgrvinod/a-PyTorch-Tutorial-to-Image-Captioning#156, pytorch/examples#107): encoder side of the attention projected at each word."""
import torch
from torch import nn

expected = {
    "case": "C811",
    "polarity": "positive",
    "kind": "time_loop_invariant_matmul",
    "hot_lines": [35],
    "fix": "hoist_encoder_projection",
    "auto_fix_safe": True,
    "why": "encoder_out never changes while decoding, so encoder_att(encoder_out) is the same matrix in every step",
    "hot_share_cpu": 0.52,
    "speedup_cpu": 2.82,
}


class DecoderWithAttention(nn.Module):
    def __init__(self, attention_dim=128, embed_dim=32, decoder_dim=48, vocab_size=300, encoder_dim=256):
        super(DecoderWithAttention, self).__init__()
        self.encoder_att = nn.Linear(encoder_dim, attention_dim)
        self.decoder_att = nn.Linear(decoder_dim, attention_dim)
        self.full_att = nn.Linear(attention_dim, 1)
        self.embedding = nn.Embedding(vocab_size, embed_dim)
        self.decode_step = nn.LSTMCell(embed_dim + encoder_dim, decoder_dim)
        self.init_h = nn.Linear(encoder_dim, decoder_dim)
        self.fc = nn.Linear(decoder_dim, vocab_size)

    def forward(self, encoder_out, captions):
        embeddings = self.embedding(captions)  # (batch_size, caption_length, embed_dim)
        h = self.init_h(encoder_out.mean(dim=1))
        c = torch.zeros_like(h)
        predictions = []
        for t in range(captions.size(1)):
            att1 = self.encoder_att(encoder_out)  # HOT
            att2 = self.decoder_att(h)  # (batch_size, attention_dim)
            att = self.full_att(torch.relu(att1 + att2.unsqueeze(1))).squeeze(2)
            alpha = att.softmax(dim=1)
            awe = (encoder_out * alpha.unsqueeze(2)).sum(dim=1)
            h, c = self.decode_step(torch.cat([embeddings[:, t, :], awe], dim=1), (h, c))
            predictions.append(self.fc(h))
        return torch.stack(predictions, dim=1)


class DecoderWithAttentionFixed(DecoderWithAttention):
    def forward(self, encoder_out, captions):
        embeddings = self.embedding(captions)
        h = self.init_h(encoder_out.mean(dim=1))
        c = torch.zeros_like(h)
        att1 = self.encoder_att(encoder_out)
        predictions = []
        for t in range(captions.size(1)):
            att2 = self.decoder_att(h)
            att = self.full_att(torch.relu(att1 + att2.unsqueeze(1))).squeeze(2)
            awe = (encoder_out * att.softmax(dim=1).unsqueeze(2)).sum(dim=1)
            h, c = self.decode_step(torch.cat([embeddings[:, t, :], awe], dim=1), (h, c))
            predictions.append(self.fc(h))
        return torch.stack(predictions, dim=1)


def build():
    torch.manual_seed(0)
    return DecoderWithAttention(), (torch.randn(8, 49, 256), torch.randint(0, 300, (8, 20)))


def build_fixed():
    slow, inputs = build()
    fast = DecoderWithAttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
