"""C961 negative (after microsoft/Graphormer graphormer_layers.py, GraphAttnBias): the per-head copy is written to by a later step."""
import torch
from torch import nn

expected = {
    "case": "C961",
    "polarity": "negative",
    "kind": "repeat_to_expand",
    "hot_lines": [37],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the heads receive different biases through slice assignments in the helpers; on an expanded tensor all heads share one row and the write raises",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.08,
    "speedup_cpu": None,
}


class GraphAttnBias(nn.Module):
    def __init__(self, num_heads=8, num_spatial=40):
        super().__init__()
        self.num_heads = num_heads
        self.spatial_pos_encoder = nn.Embedding(num_spatial, num_heads, padding_idx=0)
        self.graph_token_virtual_distance = nn.Embedding(1, num_heads)

    def add_spatial(self, bias, spatial_pos):
        # [n_graph, n_node, n_node, n_head] -> [n_graph, n_head, n_node, n_node]
        spatial_pos_bias = self.spatial_pos_encoder(spatial_pos).permute(0, 3, 1, 2)
        bias[:, :, 1:, 1:] = bias[:, :, 1:, 1:] + spatial_pos_bias

    def add_virtual(self, bias):
        t = self.graph_token_virtual_distance.weight.view(1, self.num_heads, 1)
        bias[:, :, 1:, 0] = bias[:, :, 1:, 0] + t
        bias[:, :, 0, :] = bias[:, :, 0, :] + t

    def per_head(self, attn_bias):
        return attn_bias.unsqueeze(1).repeat(1, self.num_heads, 1, 1)  # LOOKS-HOT

    def forward(self, attn_bias, spatial_pos):
        graph_attn_bias = self.per_head(attn_bias)
        self.add_spatial(graph_attn_bias, spatial_pos)
        self.add_virtual(graph_attn_bias)
        return graph_attn_bias + attn_bias.unsqueeze(1)


class GraphAttnBiasNaive(GraphAttnBias):
    def per_head(self, attn_bias):
        return attn_bias.unsqueeze(1).expand(-1, self.num_heads, -1, -1)


def build():
    torch.manual_seed(0)
    return GraphAttnBias(), (torch.randn(8, 65, 65), torch.randint(0, 40, (8, 64, 64)))


def build_naive_fix():
    slow, inputs = build()
    naive = GraphAttnBiasNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
