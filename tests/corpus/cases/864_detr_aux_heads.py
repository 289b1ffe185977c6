"""C864 negative (after facebookresearch/detr models/detr.py, issue #219): heads on all decoder layers, [-1] for the prediction, the rest for aux losses."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C864",
    "polarity": "negative",
    "kind": "linear_then_slice",
    "hot_lines": [42, 43, 44],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the slice looks like waste, but outputs_class[:-1] and outputs_coord[:-1] feed the auxiliary losses",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.09,
    "speedup_cpu": None,
}


class MLP(nn.Module):
    def __init__(self, input_dim, hidden_dim, output_dim, num_layers):
        super().__init__()
        h = [hidden_dim] * (num_layers - 1)
        self.layers = nn.ModuleList(nn.Linear(n, k) for n, k in zip([input_dim] + h, h + [output_dim]))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(x)) if i < len(self.layers) - 1 else layer(x)
        return x


class DETRHead(nn.Module):
    def __init__(self, hidden_dim=64, num_classes=91, num_layers=4, aux_loss=True):
        super().__init__()
        layer = [nn.TransformerDecoderLayer(hidden_dim, 4, 128, 0.0, batch_first=True) for _ in range(num_layers)]
        self.decoder = nn.ModuleList(layer)
        self.class_embed = nn.Linear(hidden_dim, num_classes + 1)
        self.bbox_embed = MLP(hidden_dim, hidden_dim, 4, 3)
        self.aux_loss = aux_loss

    def predict(self, hs):
        outputs_class = self.class_embed(hs)  # LOOKS-HOT
        outputs_coord = self.bbox_embed(hs).sigmoid()  # LOOKS-HOT
        out = [outputs_class[-1], outputs_coord[-1]]  # LOOKS-HOT
        if self.aux_loss:
            out.append(list(zip(outputs_class[:-1], outputs_coord[:-1])))
        return out

    def forward(self, query, memory):
        intermediate = []
        for layer in self.decoder:
            query = layer(query, memory)
            intermediate.append(query)
        return self.predict(torch.stack(intermediate))


class DETRHeadNaive(DETRHead):
    def predict(self, hs):
        return [self.class_embed(hs[-1]), self.bbox_embed(hs[-1]).sigmoid()]


def build(head=DETRHead):
    torch.manual_seed(0)
    return head(), (torch.randn(2, 50, 64), torch.randn(2, 49, 64))


def build_naive_fix():
    return build(DETRHeadNaive)
