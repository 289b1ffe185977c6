"""C804 (after fastino-ai/GLiNER2#76): word vectors picked from sub-token vectors one sentence at a time."""
import torch
from torch import nn

expected = {
    "case": "C804",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [29, 37],
    "fix": "batched_index",
    "auto_fix_safe": True,
    "why": "every sentence has the same number of (padded) words, so one index with an arange over the batch picks the same rows",
    "hot_share_cpu": 0.70,
    "speedup_cpu": 4.36,
}


class SpanScorer(nn.Module):
    def __init__(self, hidden_size=64, num_labels=9):
        super().__init__()
        self.start_head = nn.Linear(hidden_size, hidden_size)
        self.end_head = nn.Linear(hidden_size, hidden_size)
        self.classifier = nn.Linear(2 * hidden_size, num_labels)

    def extract_word_embeddings(self, token_embeddings, first_token):
        """Use the first sub-token of each word: (B, L, D), (B, W) -> (B, W, D)"""
        words = []
        for embs, positions in zip(token_embeddings, first_token):
            words.append(embs[positions])  # HOT
        return torch.stack(words)

    def forward(self, token_embeddings, first_token, spans):
        words = self.extract_word_embeddings(token_embeddings, first_token)
        start, end = self.start_head(words), self.end_head(words)
        span_rep = []
        for i in range(words.size(0)):
            span_rep.append(torch.cat([start[i, spans[i, :, 0]], end[i, spans[i, :, 1]]], dim=-1))  # HOT
        return self.classifier(torch.stack(span_rep).relu())


class SpanScorerFixed(SpanScorer):
    def forward(self, token_embeddings, first_token, spans):
        rows = torch.arange(first_token.size(0), device=first_token.device).unsqueeze(1)
        words = token_embeddings[rows, first_token]
        start, end = self.start_head(words), self.end_head(words)
        span_rep = torch.cat([start[rows, spans[..., 0]], end[rows, spans[..., 1]]], dim=-1)
        return self.classifier(span_rep.relu())


def build():
    torch.manual_seed(0)
    spans = torch.randint(0, 10, (32, 8, 2)).sort(dim=-1).values
    return SpanScorer(), (torch.randn(32, 24, 64), torch.randint(0, 24, (32, 10)), spans)


def build_fixed():
    slow, inputs = build()
    fast = SpanScorerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
