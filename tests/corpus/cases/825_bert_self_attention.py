"""C825 (after huggingface/transformers#28802, BertSelfAttention): eager BERT attention with an additive padding mask."""
import math

import torch
from torch import nn

expected = {
    "case": "C825",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [35, 36, 37, 38, 39, 40],
    "fix": "scaled_dot_product_attention(attn_mask=extended mask)",
    "auto_fix_safe": True,
    "why": "1/sqrt(d) scale, finite additive mask, dropout only in training, and the probabilities are dropped after use",
    "hot_share_cpu": 0.74,
    "speedup_cpu": 2.52,
}


class BertSelfAttention(nn.Module):
    def __init__(self, hidden_size=192, num_attention_heads=6, dropout=0.1):
        super().__init__()
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = int(hidden_size / num_attention_heads)
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dropout = nn.Dropout(dropout)

    def transpose_for_scores(self, x):
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        return x.view(new_x_shape).permute(0, 2, 1, 3)

    def attend(self, query_layer, key_layer, value_layer, attention_mask):
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))  # HOT
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)  # HOT
        attention_scores = attention_scores + attention_mask  # HOT
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)  # HOT
        attention_probs = self.dropout(attention_probs)  # HOT
        return torch.matmul(attention_probs, value_layer)  # HOT

    def forward(self, hidden_states, attention_mask):
        extended_mask = (1.0 - attention_mask[:, None, None, :]) * -10000.0
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        context_layer = self.attend(query_layer, key_layer, value_layer, extended_mask)
        return context_layer.permute(0, 2, 1, 3).flatten(2)


class BertSdpaSelfAttention(BertSelfAttention):
    def attend(self, q, k, v, mask):
        p = self.dropout.p if self.training else 0.0
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=p)


def build():
    torch.manual_seed(0)
    mask = (torch.arange(320) < torch.tensor([320, 250, 180, 300])[:, None]).float()
    return BertSelfAttention().eval(), (torch.randn(4, 320, 192), mask)


def build_fixed():
    slow, inputs = build()
    fast = BertSdpaSelfAttention().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
