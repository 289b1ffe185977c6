"""C805 (after Beckschen/TransUNet utils.py and Project-MONAI/MONAI#8764): one-hot and Dice score built class by class."""
import torch
import torch.nn as nn

expected = {
    "case": "C805",
    "polarity": "positive",
    "kind": "class_loop",
    "hot_lines": [27, 28, 34, 35, 36, 37, 44],
    "fix": "compare_with_arange+per_class_sum",
    "auto_fix_safe": True,
    "why": "each class only reads its own channel; the three sums become sums over (batch, height, width), equal up to rounding",
    "hot_share_cpu": 0.83,
    "speedup_cpu": 5.68,
}


class DiceLoss(nn.Module):
    def __init__(self, in_channels=8, n_classes=14):
        super(DiceLoss, self).__init__()
        self.n_classes = n_classes
        self.segmentation_head = nn.Conv2d(in_channels, n_classes, kernel_size=1)

    def _one_hot_encoder(self, input_tensor):
        tensor_list = []
        for i in range(self.n_classes):
            temp_prob = input_tensor == i  # HOT
            tensor_list.append(temp_prob.unsqueeze(1))  # HOT
        output_tensor = torch.cat(tensor_list, dim=1)
        return output_tensor.float()

    def _dice_loss(self, score, target):
        smooth = 1e-5
        intersect = torch.sum(score * target)  # HOT
        y_sum = torch.sum(target * target)  # HOT
        z_sum = torch.sum(score * score)  # HOT
        return 1 - (2 * intersect + smooth) / (z_sum + y_sum + smooth)  # HOT

    def forward(self, feats, target):
        inputs = torch.softmax(self.segmentation_head(feats), dim=1)
        target = self._one_hot_encoder(target)
        loss = 0.0
        for i in range(0, self.n_classes):
            loss += self._dice_loss(inputs[:, i], target[:, i])  # HOT
        return loss / self.n_classes


class DiceLossFixed(DiceLoss):
    def forward(self, feats, target):
        inputs = torch.softmax(self.segmentation_head(feats), dim=1)
        classes = torch.arange(self.n_classes, device=target.device).view(1, -1, 1, 1)
        target = (target.unsqueeze(1) == classes).float()
        smooth, dims = 1e-5, (0, 2, 3)
        total = inputs.square().sum(dims) + target.sum(dims)
        return (1 - (2 * (inputs * target).sum(dims) + smooth) / (total + smooth)).mean()


def build():
    torch.manual_seed(0)
    return DiceLoss(), (torch.randn(2, 8, 28, 28), torch.randint(0, 14, (2, 28, 28)))


def build_fixed():
    slow, inputs = build()
    fast = DiceLossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
