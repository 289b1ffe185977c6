"""C831 (after huggingface/trl#6870/#6863 and prime-rl#1971): the frozen bf16 head is upcast again for each chunk of tokens."""
import torch
import torch.nn as nn

expected = {
    "case": "C831",
    "polarity": "positive",
    "kind": "repeated_dtype_cast",
    "hot_lines": [35],
    "fix": "hoist_cast_before_loop",
    "auto_fix_safe": True,
    "why": "the weight is frozen and nothing in the loop writes to it, so one upcast before the loop gives the same numbers",
    "hot_share_cpu": 0.20,
    "speedup_cpu": 1.28,
}


class ReferenceLogProbs(nn.Module):
    """ per token log probs of the reference policy, chunked so the full logits never exist """

    def __init__(self, hidden_size=384, vocab_size=2048, chunk_size=8, dtype=torch.bfloat16):
        super().__init__()
        self.norm = nn.LayerNorm(hidden_size, dtype=dtype)
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False, dtype=dtype)
        self.chunk_size = chunk_size
        self.requires_grad_(False)

    @torch.no_grad()
    def forward(self, hidden_states, labels):
        h = self.norm(hidden_states).flatten(0, 1)
        labels = labels.flatten()
        logps, entropies = [], []
        for start in range(0, h.size(0), self.chunk_size):
            chunk = h[start : start + self.chunk_size].float()
            weight = self.lm_head.weight.float()  # HOT
            logits = chunk @ weight.t()
            logp = logits.log_softmax(dim=-1)
            picked = labels[start : start + self.chunk_size].unsqueeze(-1)
            logps.append(logp.gather(-1, picked).squeeze(-1))
            entropies.append(-(logp.exp() * logp).sum(-1))
        return torch.cat(logps), torch.cat(entropies)


class ReferenceLogProbsFixed(ReferenceLogProbs):
    @torch.no_grad()
    def forward(self, hidden_states, labels):
        h = self.norm(hidden_states).flatten(0, 1)
        weight = self.lm_head.weight.float()
        logps, entropies = [], []
        for chunk, picked in zip(h.split(self.chunk_size), labels.flatten().split(self.chunk_size)):
            logp = (chunk.float() @ weight.t()).log_softmax(dim=-1)
            logps.append(logp.gather(-1, picked.unsqueeze(-1)).squeeze(-1))
            entropies.append(-(logp.exp() * logp).sum(-1))
        return torch.cat(logps), torch.cat(entropies)


def build():
    torch.manual_seed(0)
    h = torch.randn(2, 64, 384, dtype=torch.bfloat16)
    return ReferenceLogProbs(), (h, torch.randint(0, 2048, (2, 64)))


def build_fixed():
    slow, inputs = build()
    fast = ReferenceLogProbsFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
