"""C905 (after plkmo/BERT-Relation-Extraction modeling_bert.py): every sample's markers gathered for all samples, diagonal kept."""
import torch
from torch import nn

expected = {
    "case": "C905",
    "polarity": "positive",
    "kind": "batch_loop_gather",
    "hot_lines": [26, 29, 30],
    "fix": "arange_row_index",
    "auto_fix_safe": True,
    "why": "blankv1v2[i, i] is sequence_output[i, e1_e2_start[i]]: one advanced index with arange rows, without the B x B blow-up",
    "hot_share_cpu": 0.59,
    "speedup_cpu": 3.01,
}


class RelationHead(nn.Module):
    def __init__(self, hidden_size=64, n_classes=19):
        super().__init__()
        self.encoder = nn.Linear(hidden_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.classification_layer = nn.Linear(2 * hidden_size, n_classes)

    def pool_markers(self, sequence_output, e1_e2_start):
        blankv1v2 = sequence_output[:, e1_e2_start, :]  # HOT
        buffer = []
        for i in range(blankv1v2.shape[0]):  # iterate batch & collect
            v1v2 = blankv1v2[i, i, :, :]  # HOT
            v1v2 = torch.cat((v1v2[0], v1v2[1]))  # HOT
            buffer.append(v1v2)
        del blankv1v2
        return torch.stack([a for a in buffer], dim=0)

    def forward(self, hidden_states, e1_e2_start):
        sequence_output = self.norm(hidden_states + self.encoder(hidden_states).relu())
        v1v2 = self.pool_markers(sequence_output, e1_e2_start)
        return self.classification_layer(v1v2)


class RelationHeadFixed(RelationHead):
    def pool_markers(self, sequence_output, e1_e2_start):
        rows = torch.arange(sequence_output.size(0), device=sequence_output.device)
        return sequence_output[rows[:, None], e1_e2_start].flatten(1)


def build():
    torch.manual_seed(0)
    return RelationHead(), (torch.randn(32, 24, 64), torch.randint(0, 24, (32, 2)))


def build_fixed():
    slow, inputs = build()
    fast = RelationHeadFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
