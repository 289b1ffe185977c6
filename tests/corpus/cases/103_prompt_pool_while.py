"""C103 (after prompt-pool and deep-prompt tuning code): the prompts of every level are fetched in a while loop."""
import torch
from torch import nn
import torch.nn.functional as F

expected = {
    "case": "C103",
    "polarity": "positive",
    "kind": "embedding_loop",
    "hot_lines": [30],
    "fix": "one_lookup_on_the_whole_index",
    "auto_fix_safe": True,
    "why": "the slots of all levels are known before the loop; F.embedding takes the (batch, level, length) index whole",
    "hot_share_cpu": 0.92,
    "speedup_cpu": 12.03,
}


class PromptPool(nn.Module):
    def __init__(self, prompts=200, width=16):
        super().__init__()
        self.pool = nn.Parameter(torch.randn(prompts, width))
        self.shift = nn.Linear(width, width)

    def fetch(self, slots: torch.LongTensor, like: torch.Tensor) -> torch.Tensor:
        batch, levels, length = slots.shape
        bank = like.new_zeros(batch, levels, length, self.pool.size(1))
        level = 0
        while level < levels:
            bank[:, level] = F.embedding(slots.select(1, level), self.pool)  # HOT
            level += 1
        return bank

    def forward(self, query, slots):
        prompts = self.fetch(slots, query)
        return prompts + self.shift(query)[:, None, None, :]


class PromptPoolFixed(PromptPool):
    def fetch(self, slots, like):
        return F.embedding(slots, self.pool)


def build():
    torch.manual_seed(13)
    return PromptPool(), (torch.randn(4, 16), torch.randint(200, (4, 48, 5)))


def build_fixed():
    slow, inputs = build()
    fast = PromptPoolFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
