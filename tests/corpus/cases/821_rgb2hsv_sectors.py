"""C821 (after limacv/RGB_HSV_HSL color_torch.py, pytorch#57515): the hue of each colour sector is written through a boolean mask."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C821",
    "polarity": "positive",
    "kind": "bool_mask_assign",
    "hot_lines": [26, 27, 28],
    "fix": "torch.where",
    "auto_fix_safe": True,
    "why": "both sides use the same mask, hue is a fresh tensor nobody else holds, and the right-hand sides are full maps anyway",
    "hot_share_cpu": 0.60,
    "speedup_cpu": 1.75,
}


def rgb2hsv(img):
    maxc, argmax = torch.max(img, dim=1, keepdim=True)
    minc = torch.min(img, dim=1, keepdim=True)[0]
    diff = maxc - minc
    r, g, b = img[:, 0:1], img[:, 1:2], img[:, 2:3]
    argmax[diff == 0] = 3
    hue = torch.zeros_like(maxc)
    hue[argmax == 0] = (((g - b) / diff) % 6)[argmax == 0]  # HOT
    hue[argmax == 1] = ((b - r) / diff + 2)[argmax == 1]  # HOT
    hue[argmax == 2] = ((r - g) / diff + 4)[argmax == 2]  # HOT
    sat = torch.where(maxc == 0, torch.zeros_like(maxc), diff / maxc)
    return torch.cat([hue / 6., sat, maxc], dim=1)


class HSVColorLoss(nn.Module):
    to_hsv = staticmethod(rgb2hsv)

    def __init__(self, weights=(1.0, 1.0, 0.5)):
        super(HSVColorLoss, self).__init__()
        self.weights = weights

    def forward(self, pred, gt):
        pred = self.to_hsv(pred.clamp(0, 1))
        gt = self.to_hsv(gt)
        loss = [w * F.l1_loss(pred[:, i], gt[:, i]) for i, w in enumerate(self.weights)]
        return sum(loss), pred


def rgb2hsv_where(img):
    maxc, argmax = torch.max(img, dim=1, keepdim=True)
    minc = torch.min(img, dim=1, keepdim=True)[0]
    diff = maxc - minc
    r, g, b = img[:, 0:1], img[:, 1:2], img[:, 2:3]
    argmax[diff == 0] = 3
    hue = torch.where(argmax == 0, ((g - b) / diff) % 6, torch.zeros_like(maxc))
    hue = torch.where(argmax == 1, (b - r) / diff + 2, hue)
    hue = torch.where(argmax == 2, (r - g) / diff + 4, hue)
    sat = torch.where(maxc == 0, torch.zeros_like(maxc), diff / maxc)
    return torch.cat([hue / 6., sat, maxc], dim=1)


class HSVColorLossFixed(HSVColorLoss):
    to_hsv = staticmethod(rgb2hsv_where)


def build():
    torch.manual_seed(0)
    return HSVColorLoss(), (torch.rand(4, 3, 96, 96) * 1.2 - 0.1, torch.rand(4, 3, 96, 96))


def build_fixed():
    return HSVColorLossFixed(), build()[1]
