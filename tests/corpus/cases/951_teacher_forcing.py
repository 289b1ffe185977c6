"""C951 negative (after bentrevett/pytorch-seq2seq): with scheduled sampling the looked-up token is the target or the model's own."""
import torch
from torch import nn

expected = {
    "case": "C951",
    "polarity": "negative",
    "kind": "embedding_loop",
    "hot_lines": [34],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "trg[:, t] is known, but the input of the next step may be top1 of this step; one lookup on trg is pure teacher forcing",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.06,
    "speedup_cpu": None,
}


class Decoder(nn.Module):
    def __init__(self, output_dim=400, emb_dim=32, hid_dim=48):
        super().__init__()
        self.embedding = nn.Embedding(output_dim, emb_dim)
        self.rnn = nn.GRUCell(emb_dim, hid_dim)
        self.fc_out = nn.Linear(hid_dim, output_dim)

    def step(self, embedded, hidden):
        hidden = self.rnn(embedded, hidden)
        return self.fc_out(hidden), hidden

    def forward(self, trg, hidden, teacher_forcing_ratio=0.5):
        outputs = []
        input = trg[:, 0]
        for t in range(1, trg.shape[1]):
            embedded = self.embedding(input)  # LOOKS-HOT
            output, hidden = self.step(embedded, hidden)
            outputs.append(output)
            teacher_force = torch.rand(1).item() < teacher_forcing_ratio
            top1 = output.argmax(1)
            input = trg[:, t] if teacher_force else top1
        return torch.stack(outputs, 1)


class DecoderNaive(Decoder):
    def forward(self, trg, hidden, teacher_forcing_ratio=0.5):
        outputs = []
        for embedded in self.embedding(trg[:, :-1]).unbind(1):
            output, hidden = self.step(embedded, hidden)
            outputs.append(output)
        return torch.stack(outputs, 1)


def build():
    torch.manual_seed(0)
    return Decoder(), (torch.randint(0, 400, (8, 40)), torch.zeros(8, 48))


def build_naive_fix():
    slow, inputs = build()
    naive = DecoderNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
