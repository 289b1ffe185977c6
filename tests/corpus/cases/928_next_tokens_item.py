"""C928 (after huggingface/transformers#40646 and #40479): continuous batching reads each request's next token with .item()."""
import torch
from torch import nn

expected = {
    "case": "C928",
    "polarity": "positive",
    "kind": "item_in_loop",
    "hot_lines": [38],
    "fix": "tolist_once_before_loop",
    "auto_fix_safe": True,
    "why": "next_ids is not written in the loop, so one tolist() gives the same Python ints: one sync instead of one per request",
    "hot_share_cpu": 0.35,
    "speedup_cpu": 2.10,
}


class RequestState:
    def __init__(self, request_id, eos_token_id):
        self.request_id = request_id
        self.eos_token_id = eos_token_id
        self.generated = []

    def update_with_token(self, token_id):
        self.generated.append(token_id)
        return token_id == self.eos_token_id


class BatchProcessor(nn.Module):
    def __init__(self, hidden_size=32, vocab_size=200, eos_token_id=2):
        super().__init__()
        self.lm_head = nn.Linear(hidden_size, vocab_size, bias=False)
        self.eos_token_id = eos_token_id

    def update_batch(self, states, next_ids, logits_indices):
        finished = []
        for i, state in enumerate(states):
            token = next_ids[logits_indices[i].item()].item()  # HOT
            if state.update_with_token(token):
                finished.append(state.request_id)
        return finished

    @torch.no_grad()
    def forward(self, hidden_states, logits_indices):
        next_ids = self.lm_head(hidden_states).argmax(dim=-1)
        states = [RequestState(i, self.eos_token_id) for i in range(logits_indices.numel())]
        finished = self.update_batch(states, next_ids, logits_indices)
        return [s.generated[-1] for s in states], finished


class BatchProcessorFixed(BatchProcessor):
    def update_batch(self, states, next_ids, logits_indices):
        finished = []
        tokens = next_ids[logits_indices].tolist()
        for i, state in enumerate(states):
            if state.update_with_token(tokens[i]):
                finished.append(state.request_id)
        return finished


def build():
    torch.manual_seed(0)
    return BatchProcessor(), (torch.randn(512, 32), torch.arange(3, 512, 4))


def build_fixed():
    slow, inputs = build()
    fast = BatchProcessorFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
