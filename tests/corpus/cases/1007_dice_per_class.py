"""C1007: soft Dice computed class by class into a dictionary."""
import torch
from torch import nn

expected = {
    "case": "C1007",
    "polarity": "positive",
    "kind": "class_loop",
    "hot_lines": [32, 33, 34],
    "fix": "compare_with_arange_then_sum_over_dims",
    "auto_fix_safe": False,
    "why": "equal up to the order of the sums, but it replaces the dictionary and needs memory for all classes at once; a rewrite to accept",
    "hot_share_cpu": 0.91,
    "speedup_cpu": 9.65,
}


class DiceNet(nn.Module):
    def __init__(self, classes=40, eps=1e-6):
        super().__init__()
        self.net = nn.Conv2d(3, classes, kernel_size=1)
        self.eps = eps

    @property
    def num_classes(self):
        return self.net.out_channels

    def forward(self, image, label):
        prob = self.net(image).softmax(dim=1)
        dice = {}
        for c in range(self.num_classes):
            hit = (label == c).float()  # HOT
            both = (prob[:, c] * hit).sum()  # HOT
            dice[c] = (2 * both + self.eps) / (prob[:, c].sum() + hit.sum() + self.eps)  # HOT
        return 1 - torch.stack(list(dice.values())).mean()


class DiceNetFixed(DiceNet):
    def forward(self, image, label):
        prob = self.net(image).softmax(dim=1)
        ids = torch.arange(self.num_classes, device=label.device).view(-1, 1, 1)
        hit = (label.unsqueeze(1) == ids).float()
        both = (prob * hit).sum(dim=(0, 2, 3))
        dice = (2 * both + self.eps) / (prob.sum(dim=(0, 2, 3)) + hit.sum(dim=(0, 2, 3)) + self.eps)
        return 1 - dice.mean()


def build():
    torch.manual_seed(0)
    return DiceNet(), (torch.randn(2, 3, 20, 20), torch.randint(0, 40, (2, 20, 20)))


def build_fixed():
    slow, inputs = build()
    fast = DiceNetFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
