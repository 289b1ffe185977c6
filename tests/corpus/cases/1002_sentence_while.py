"""C1002: words looked up sentence by sentence in a while loop."""
import torch
from torch import nn

expected = {
    "case": "C1002",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [29],
    "fix": "one_lookup_on_the_whole_index_tensor",
    "auto_fix_safe": True,
    "why": "sentences are independent, every slot of the buffer is written exactly once, and mean(dim=1) becomes mean(dim=2)",
    "hot_share_cpu": 0.95,
    "speedup_cpu": 29.53,
}


class DocEncoder(nn.Module):
    def __init__(self, vocab=5000, width=32):
        super().__init__()
        self.words = nn.Embedding(vocab, width, padding_idx=0)
        self.top = nn.Linear(width, width)

    def forward(self, docs):
        b, n_sent, n_word = docs.shape
        sents = self.words.weight.new_empty(b, n_sent, self.words.embedding_dim)
        s = 0
        while s < n_sent:
            sents[:, s] = self.words(docs[:, s]).mean(dim=1)  # HOT
            s += 1
        return self.top(sents).relu()


class DocEncoderFixed(DocEncoder):
    def forward(self, docs):
        sents = self.words(docs).mean(dim=2)
        return self.top(sents).relu()


def build():
    torch.manual_seed(0)
    return DocEncoder(), (torch.randint(0, 5000, (4, 140, 8)),)


def build_fixed():
    slow, inputs = build()
    fast = DocEncoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
