"""C809 (after suragnair/seqGAN generator.py, batchPGLoss): the log-probability of each token picked element by element."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C809",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [42],
    "fix": "gather_times_reward",
    "auto_fix_safe": False,
    "why": "out.gather(1, target) picks the same numbers, but the sum runs in another order: equal up to rounding only",
    "hot_share_cpu": 0.56,
    "speedup_cpu": 2.51,
}


class Generator(nn.Module):
    def __init__(self, embedding_dim=32, hidden_dim=32, vocab_size=500):
        super(Generator, self).__init__()
        self.hidden_dim = hidden_dim
        self.embedding_dim = embedding_dim
        self.embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.gru = nn.GRU(embedding_dim, hidden_dim)
        self.gru2out = nn.Linear(hidden_dim, vocab_size)

    def step(self, inp, hidden):
        emb = self.embeddings(inp).view(1, -1, self.embedding_dim)
        out, hidden = self.gru(emb, hidden)
        out = self.gru2out(out.view(-1, self.hidden_dim))
        return F.log_softmax(out, dim=1), hidden

    def forward(self, inp, target, reward):
        batch_size, seq_len = inp.size()
        inp, target = inp.permute(1, 0), target.permute(1, 0)  # seq_len x batch_size
        h = torch.zeros(1, batch_size, self.hidden_dim)
        loss = 0
        for i in range(seq_len):
            out, h = self.step(inp[i], h)
            for j in range(batch_size):
                loss += -out[j][target.data[i][j]] * reward[j]  # HOT
        return loss / batch_size


class GeneratorFixed(Generator):
    def forward(self, inp, target, reward):
        batch_size, seq_len = inp.size()
        inp, target = inp.permute(1, 0), target.permute(1, 0)
        h = torch.zeros(1, batch_size, self.hidden_dim)
        loss = 0
        for i in range(seq_len):
            out, h = self.step(inp[i], h)
            loss = loss - (out.gather(1, target[i].unsqueeze(1)).squeeze(1) * reward).sum()
        return loss / batch_size


def build():
    torch.manual_seed(0)
    tokens = torch.randint(0, 500, (16, 13))
    return Generator(), (tokens[:, :-1], tokens[:, 1:], torch.rand(16))


def build_fixed():
    slow, inputs = build()
    fast = GeneratorFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
