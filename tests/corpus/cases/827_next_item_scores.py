"""C827 (after karpathy/nanoGPT#42, huggingface/transformers#38977): the full item vocabulary is scored at every step, only the last is used."""
import torch
import torch.nn as nn

expected = {
    "case": "C827",
    "polarity": "positive",
    "kind": "linear_then_slice",
    "hot_lines": [32, 33, 34],
    "fix": "slice_before_head",
    "auto_fix_safe": True,
    "why": "norm, linear layer and division work on each position alone, and the scores of the other positions are thrown away",
    "hot_share_cpu": 0.90,
    "speedup_cpu": 2.06,
}


class SessionRec(nn.Module):
    def __init__(self, n_items=3000, hidden_size=48, temperature=0.7):
        super().__init__()
        self.item_embedding = nn.Embedding(n_items, hidden_size, padding_idx=0)
        self.gru = nn.GRU(hidden_size, hidden_size, batch_first=True)
        self.norm = nn.LayerNorm(hidden_size)
        self.item_head = nn.Linear(hidden_size, n_items)
        self.temperature = temperature

    def encode(self, item_seq):
        out, _ = self.gru(self.item_embedding(item_seq))
        return self.norm(out)

    def predict(self, item_seq):
        logits = self.item_head(self.encode(item_seq))  # HOT
        logits = logits / self.temperature  # HOT
        return logits[:, -1, :]  # HOT

    def forward(self, item_seq, top_k=10):
        scores, items = self.predict(item_seq).topk(top_k, dim=-1)
        return scores.log_softmax(dim=-1), items


class SessionRecFixed(SessionRec):
    def predict(self, item_seq):
        last = self.encode(item_seq)[:, -1, :]
        return self.item_head(last) / self.temperature


def build():
    torch.manual_seed(0)
    return SessionRec().eval(), (torch.randint(1, 3000, (8, 30)),)


def build_fixed():
    slow, inputs = build()
    fast = SessionRecFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
