"""C910 (after XenderLiu/Listen-Attend-and-Spell-Pytorch las_model.py Attention): list comprehensions over the query heads."""
import torch
from torch import nn

expected = {
    "case": "C910",
    "polarity": "positive",
    "kind": "head_loop",
    "hot_lines": [32, 33, 36],
    "fix": "heads_as_query_rows",
    "auto_fix_safe": True,
    "why": "all heads share keys and values, so the split queries are rows of one bmm and the softmax acts per row",
    "hot_share_cpu": 0.73,
    "speedup_cpu": 3.77,
}


class Attention(nn.Module):
    def __init__(self, preprocess_mlp_dim=32, multi_head=8, feature_dim=64):
        super().__init__()
        self.multi_head = multi_head
        self.preprocess_mlp_dim = preprocess_mlp_dim
        self.softmax = nn.Softmax(dim=-1)
        self.phi = nn.Linear(feature_dim, preprocess_mlp_dim * multi_head)
        self.psi = nn.Linear(feature_dim, preprocess_mlp_dim)
        self.dim_reduce = nn.Linear(feature_dim * multi_head, feature_dim)

    def forward(self, decoder_state, listener_feature):
        comp_decoder_state = torch.relu(self.phi(decoder_state))
        comp_listener_feature = torch.relu(self.psi(listener_feature))
        attention_score = [
            self.softmax(torch.bmm(att_query, comp_listener_feature.transpose(1, 2)).squeeze(dim=1))  # HOT
            for att_query in torch.split(comp_decoder_state, self.preprocess_mlp_dim, dim=-1)  # HOT
        ]
        projected_src = [
            torch.sum(listener_feature * att_s.unsqueeze(2).repeat(1, 1, listener_feature.size(2)), dim=1)  # HOT
            for att_s in attention_score
        ]
        context = self.dim_reduce(torch.cat(projected_src, dim=-1))
        return torch.stack(attention_score, 1), context


class AttentionFixed(Attention):
    def forward(self, decoder_state, listener_feature):
        queries = torch.relu(self.phi(decoder_state)).view(-1, self.multi_head, self.preprocess_mlp_dim)
        comp_listener_feature = torch.relu(self.psi(listener_feature))
        attention_score = self.softmax(torch.bmm(queries, comp_listener_feature.transpose(1, 2)))
        projected_src = torch.bmm(attention_score, listener_feature)
        return attention_score, self.dim_reduce(projected_src.flatten(1))


def build():
    torch.manual_seed(0)
    return Attention(), (torch.randn(8, 1, 64), torch.randn(8, 50, 64))


def build_fixed():
    slow, inputs = build()
    fast = AttentionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
