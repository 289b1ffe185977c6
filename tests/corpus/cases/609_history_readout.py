"""C609 (after sequential recommenders with a shared key and value head): interest queries read a user's click history."""
import math
import torch
from torch import nn

expected = {
    "case": "C609",
    "polarity": "positive",
    "kind": "manual_attention",
    "hot_lines": [29, 30, 31, 32],
    "fix": "scaled_dot_product_attention",
    "auto_fix_safe": True,
    "why": "softmax over the history, default scale, no mask, dropout off outside training; the weights only meet the values. Key and value are shared by all heads and need an expand",
    "hot_share_cpu": 0.94,
    "speedup_cpu": 1.77,
}


class HistoryReadout(nn.Module):
    def __init__(self, width=16, heads=8, interests=128, items=500):
        super().__init__()
        self.items = nn.Embedding(items, width)
        self.interests = nn.Parameter(torch.randn(heads, interests, width))
        self.to_kv = nn.Linear(width, 2 * width, bias=False)
        self.drop = nn.Dropout(0.1)
        self.merge = nn.Linear(heads * width, width)

    def read(self, key, value):
        fit = torch.einsum("hid,btd->bhit", self.interests, key)  # HOT
        fit = torch.div(fit, math.sqrt(key.shape[-1]))  # HOT
        share = self.drop(torch.softmax(fit, -1))  # HOT
        return torch.einsum("bhit,btd->bihd", share, value)  # HOT

    def forward(self, clicks):
        key, value = torch.tensor_split(self.to_kv(self.items(clicks)), 2, dim=2)
        return self.merge(self.read(key, value).flatten(start_dim=2))


class HistoryReadoutFixed(HistoryReadout):
    def read(self, key, value):
        shape = (key.size(0), self.interests.size(0), -1, -1)
        query = self.interests.expand(key.size(0), -1, -1, -1)
        key, value = (t.unsqueeze(1).expand(shape) for t in (key, value))
        p = self.drop.p if self.training else 0.0
        out = nn.functional.scaled_dot_product_attention(query, key, value, dropout_p=p)
        return out.transpose(1, 2)


def build():
    torch.manual_seed(0)
    return HistoryReadout().eval(), (torch.randint(500, (2, 600)),)


def build_fixed():
    slow, inputs = build()
    fast = HistoryReadoutFixed()
    fast.load_state_dict(slow.state_dict())
    return fast.eval(), inputs
