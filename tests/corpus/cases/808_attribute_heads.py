"""C808 (after pytorch/pytorch#36591 and hearai/hearai#86): forty small linear heads applied one by one to the same features."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C808",
    "polarity": "positive",
    "kind": "module_list_loop_same_input",
    "hot_lines": [35],
    "fix": "concatenate_weights_or_one_wide_linear",
    "auto_fix_safe": False,
    "why": "exact with the weights concatenated per call; the better form, one nn.Linear, renames the parameters of checkpoints",
    "hot_share_cpu": 0.83,
    "speedup_cpu": 2.16,
}


class AttributeNet(nn.Module):
    def __init__(self, in_dim=64, feature_dim=96, num_attributes=40, num_classes=2):
        super(AttributeNet, self).__init__()
        self.backbone = nn.Sequential(
            nn.Linear(in_dim, feature_dim),
            nn.LayerNorm(feature_dim),
            nn.ReLU(inplace=True),
        )
        self.cls_head = nn.ModuleList()
        for _ in range(num_attributes):
            self.cls_head.append(nn.Linear(feature_dim, num_classes))

    def forward(self, x):
        x = self.backbone(x)
        predictions = []
        for head in self.cls_head:
            predictions.append(head(x))  # HOT
        return predictions


class AttributeNetFixed(AttributeNet):
    def forward(self, x):
        x = self.backbone(x)
        weight = torch.cat([head.weight for head in self.cls_head])
        bias = torch.cat([head.bias for head in self.cls_head])
        return list(F.linear(x, weight, bias).split(self.cls_head[0].out_features, dim=-1))


def build():
    torch.manual_seed(0)
    return AttributeNet(), (torch.randn(32, 64),)


def build_fixed():
    slow, inputs = build()
    fast = AttributeNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
