"""C843 (after LibreYOLO/libreyolo#763 item 3, detectron2#703): loss normalisers fetched to the host only to divide by them."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C843",
    "polarity": "positive",
    "kind": "host_sync_item",
    "hot_lines": [36, 38],
    "fix": "keep_scalar_on_device",
    "auto_fix_safe": True,
    "why": "max(n, 1) on the host is clamp(min=1) on the device; both counts come from targets, so no gradient is at stake",
    "gpu_only": True,
    "hot_share_cpu": 0.03,
    "speedup_cpu": 1.00,
}


class DenseHeadLoss(nn.Module):
    def __init__(self, width=32, classes=6, levels=5):
        super().__init__()
        self.cls = nn.Conv2d(width, classes, 1)
        self.reg = nn.Conv2d(width, 4, 1)
        self.scales = nn.Parameter(torch.ones(levels))
        self.classes = classes

    def predict(self, feats):
        cls = [self.cls(f).flatten(2) for f in feats]
        reg = [(self.reg(f) * s).flatten(2) for s, f in zip(self.scales, feats)]
        return torch.cat(cls, 2).transpose(1, 2), torch.cat(reg, 2).transpose(1, 2)

    def forward(self, feats, labels, boxes, centerness):
        cls, reg = self.predict(feats)
        pos = labels < self.classes
        num_pos = max(pos.sum().item(), 1)  # HOT
        centerness = centerness * pos
        norm = max(centerness.sum().item(), 1e-6)  # HOT
        onehot = F.one_hot(labels, self.classes + 1)[..., :-1].to(cls.dtype)
        loss_cls = F.binary_cross_entropy_with_logits(cls, onehot, reduction="sum") / num_pos
        dist = F.smooth_l1_loss(reg, boxes, reduction="none").sum(dim=-1)
        return loss_cls, (dist * centerness).sum() / norm


class DenseHeadLossFixed(DenseHeadLoss):
    def forward(self, feats, labels, boxes, centerness):
        cls, reg = self.predict(feats)
        pos = labels < self.classes
        num_pos = pos.sum().clamp(min=1)
        centerness = centerness * pos
        norm = centerness.sum().clamp(min=1e-6)
        onehot = F.one_hot(labels, self.classes + 1)[..., :-1].to(cls.dtype)
        loss_cls = F.binary_cross_entropy_with_logits(cls, onehot, reduction="sum") / num_pos
        dist = F.smooth_l1_loss(reg, boxes, reduction="none").sum(dim=-1)
        return loss_cls, (dist * centerness).sum() / norm


def build():
    torch.manual_seed(0)
    feats = [torch.randn(2, 32, s, s) for s in (16, 8, 4, 2, 1)]
    n = sum(f[0, 0].numel() for f in feats)
    return DenseHeadLoss(), (feats, torch.randint(0, 7, (2, n)), torch.rand(2, n, 4), torch.rand(2, n))


def build_fixed():
    slow, inputs = build()
    fast = DenseHeadLossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
