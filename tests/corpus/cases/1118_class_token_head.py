"""C1118: norm and head run on all tokens, then the class token is taken."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C1118",
    "polarity": "positive",
    "kind": "linear_then_slice",
    "hot_lines": [33, 34, 35, 36],
    "fix": "slice_before_head",
    "auto_fix_safe": True,
    "why": "LayerNorm over the last dim, Linear and GELU treat each token alone, so the slice commutes with all of them",
    "hot_share_cpu": 0.22,
    "speedup_cpu": 1.25,
}


class ClassTokenNet(nn.Module):
    def __init__(self, dim=128, classes=200):
        super().__init__()
        self.token = nn.Parameter(torch.randn(1, 1, dim))
        self.block = nn.TransformerEncoderLayer(dim, 4, dim_feedforward=dim, dropout=0.0, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.pre_logits = nn.Linear(dim, dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, patches, features_only=False):
        cls = self.token.expand(patches.shape[0], -1, -1)
        x = self.block(torch.cat((cls, patches), dim=1))
        if features_only:
            return x
        x = self.norm(x)  # HOT
        x = F.gelu(self.pre_logits(x))  # HOT
        logits = self.head(x)  # HOT
        return logits[:, 0]  # HOT


class ClassTokenNetFixed(ClassTokenNet):
    def forward(self, patches, features_only=False):
        cls = self.token.expand(patches.shape[0], -1, -1)
        x = self.block(torch.cat((cls, patches), dim=1))
        if features_only:
            return x
        x = self.norm(x[:, 0])
        x = F.gelu(self.pre_logits(x))
        return self.head(x)


def build():
    torch.manual_seed(0)
    return ClassTokenNet(), (torch.randn(8, 100, 128),)


def build_fixed():
    slow, inputs = build()
    fast = ClassTokenNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
