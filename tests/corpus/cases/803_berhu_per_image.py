"""C803 (after Yannnnnnnnnnnn/Paddle_FCRN loss.py and valeoai/DADA): the reverse Huber loss with one threshold per image."""
import torch
import torch.nn as nn

expected = {
    "case": "C803",
    "polarity": "positive",
    "kind": "batch_loop_where",
    "hot_lines": [27, 28, 29, 30],
    "fix": "broadcast_per_sample_threshold",
    "auto_fix_safe": True,
    "why": "the threshold is a max over one image, so amax over (1, 2, 3) with keepdim gives all of them; the rest is elementwise",
    "hot_share_cpu": 0.68,
    "speedup_cpu": 2.98,
}


class BerHuLoss(nn.Module):
    def __init__(self, threshold=0.2):
        super(BerHuLoss, self).__init__()
        self.threshold = threshold

    def forward(self, pred, gt):
        loss = 0
        B = gt.shape[0]
        for b in range(B):
            diff = torch.abs(gt[b] - pred[b])  # HOT
            c = self.threshold * diff.max()  # HOT
            l2 = (diff ** 2 + c ** 2) / (2 * c)  # HOT
            loss += torch.where(diff <= c, diff, l2).mean()  # HOT
        return loss / B


class BerHuLossFixed(BerHuLoss):
    def forward(self, pred, gt):
        diff = torch.abs(gt - pred)
        c = self.threshold * diff.amax(dim=(1, 2, 3), keepdim=True)
        l2 = (diff ** 2 + c ** 2) / (2 * c)
        return torch.where(diff <= c, diff, l2).mean()


class DepthHead(nn.Module):
    def __init__(self, criterion, in_channels=16):
        super(DepthHead, self).__init__()
        self.conv = nn.Conv2d(in_channels, 1, 3, padding=1)
        self.criterion = criterion

    def forward(self, feats, depth):
        pred = torch.sigmoid(self.conv(feats))
        return self.criterion(pred, depth)


def build():
    torch.manual_seed(0)
    return DepthHead(BerHuLoss()), (torch.randn(32, 16, 16, 20), torch.rand(32, 1, 16, 20))


def build_fixed():
    slow, inputs = build()
    fast = DepthHead(BerHuLossFixed())
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
