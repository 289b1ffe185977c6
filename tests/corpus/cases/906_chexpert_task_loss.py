"""C906 (after jfhealthcare/Chexpert bin/train.py get_loss): weighted BCE and accuracy computed finding by finding."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C906",
    "polarity": "positive",
    "kind": "class_loop",
    "hot_lines": [21, 22, 23, 37],
    "fix": "bce_over_all_columns",
    "auto_fix_safe": True,
    "why": "pos_weight broadcasts over the class column; reduction none, mean over the batch, sum over classes is the same loss",
    "hot_share_cpu": 0.87,
    "speedup_cpu": 13.89,
}


def get_loss(output, target, index, pos_weight):
    label = target[:, index]
    loss = F.binary_cross_entropy_with_logits(output[:, index], label, pos_weight=pos_weight[index])  # HOT
    pred = torch.sigmoid(output[:, index]).ge(0.5).float()  # HOT
    acc = pred.eq(label).float().sum() / len(label)  # HOT
    return loss, acc


class ChexpertCriterion(nn.Module):
    def __init__(self, num_tasks=14, width=128):
        super().__init__()
        self.fc = nn.Linear(width, num_tasks)
        self.register_buffer("pos_weight", torch.linspace(1.0, 8.0, num_tasks))

    def forward(self, feat, target):
        output = self.fc(feat)
        loss, accs = 0, []
        for t in range(output.shape[1]):
            loss_t, acc_t = get_loss(output, target, t, self.pos_weight)  # HOT
            loss += loss_t
            accs.append(acc_t)
        return loss, torch.stack(accs)


class ChexpertCriterionFixed(ChexpertCriterion):
    def forward(self, feat, target):
        output = self.fc(feat)
        bce = F.binary_cross_entropy_with_logits(output, target, pos_weight=self.pos_weight, reduction="none")
        pred = torch.sigmoid(output).ge(0.5).float()
        return bce.mean(0).sum(), pred.eq(target).float().mean(0)


def build():
    torch.manual_seed(0)
    return ChexpertCriterion(), (torch.randn(64, 128), (torch.rand(64, 14) < 0.3).float())


def build_fixed():
    slow, inputs = build()
    fast = ChexpertCriterionFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
