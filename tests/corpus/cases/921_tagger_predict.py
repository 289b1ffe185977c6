"""C921 (after flairNLP/flair#175, flair#167): a sequence tagger's predict() calls the plain training forward, graph and all."""
import torch
from torch import nn

expected = {
    "case": "C921",
    "polarity": "positive",
    "kind": "missing_no_grad",
    "hot_lines": [46, 47, 48, 52],
    "fix": "torch.no_grad() around the prediction",
    "auto_fix_safe": True,
    "why": "predict() leaves as Python lists, so nothing can run backward through it; eval() does not switch autograd off",
    "hot_share_cpu": 0.15,
    "speedup_cpu": 1.15,
}


class SequenceTagger(nn.Module):
    def __init__(self, vocab_size=500, embedding_dim=24, tagset_size=9):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocab_size, embedding_dim)
        self.reproject = nn.Linear(embedding_dim, embedding_dim)
        self.linear = nn.Linear(embedding_dim, tagset_size)
        self.transitions = nn.Parameter(torch.randn(tagset_size, tagset_size))

    def _features(self, sentences):
        embedded = torch.relu(self.reproject(self.word_embeddings(sentences)))
        return self.linear(embedded)

    def _viterbi(self, feats):
        backpointers = []
        forward_var = feats[:, 0]
        for t in range(1, feats.size(1)):
            next_var = forward_var.unsqueeze(1) + self.transitions
            best, bptr = next_var.max(dim=2)
            forward_var = best + feats[:, t]
            backpointers.append(bptr)
        scores, tag = forward_var.max(dim=1)
        path = [tag]
        for bptr in reversed(backpointers):
            tag = bptr.gather(1, tag.unsqueeze(1)).squeeze(1)
            path.append(tag)
        path.reverse()
        return torch.stack(path, dim=1), scores

    def predict(self, sentences):  # HOT
        feats = self._features(sentences)  # HOT
        tags, scores = self._viterbi(feats)  # HOT
        return tags.tolist(), scores.tolist()

    def forward(self, sentences):
        return self.predict(sentences)  # HOT


class SequenceTaggerFixed(SequenceTagger):
    @torch.no_grad()
    def predict(self, sentences):
        return super().predict(sentences)


def build():
    torch.manual_seed(0)
    return SequenceTagger().eval(), (torch.randint(0, 500, (4, 60)),)


def build_fixed():
    slow, inputs = build()
    fast = SequenceTaggerFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
