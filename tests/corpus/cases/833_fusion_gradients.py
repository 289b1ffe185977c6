"""C833 (after cupwater/AE_fusion utils/utils.py, kornia#1489): fixed 3x3 filters are built from nested lists on each call."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C833",
    "polarity": "positive",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [25, 26, 27, 31, 32],
    "fix": "register_buffer(persistent=False)",
    "auto_fix_safe": True,
    "why": "both kernels are literals; a non-persistent buffer keeps state_dict as it is and follows .to(device)",
    "hot_share_cpu": 0.13,
    "speedup_cpu": 1.16,
}


class FusionDetailLoss(nn.Module):
    def __init__(self, weight=5.0):
        super(FusionDetailLoss, self).__init__()
        self.weight = weight

    def low_pass(self, x):
        kernel = torch.tensor([[0.0947, 0.1183, 0.0947],  # HOT
                               [0.1183, 0.1478, 0.1183],  # HOT
                               [0.0947, 0.1183, 0.0947]], device=x.device)  # HOT
        return F.conv2d(x, kernel.reshape(1, 1, 3, 3), padding=1)

    def gradient(self, x):
        sobel = torch.tensor([[[[1., 0., -1.], [2., 0., -2.], [1., 0., -1.]]],  # HOT
                              [[[1., 2., 1.], [0., 0., 0.], [-1., -2., -1.]]]], device=x.device)  # HOT
        return F.conv2d(x, sobel, padding=1).abs().sum(dim=1, keepdim=True)

    def forward(self, fused, vis, ir):
        grad_target = torch.maximum(self.gradient(vis), self.gradient(ir))
        detail = F.l1_loss(self.gradient(fused), grad_target)
        base = F.mse_loss(self.low_pass(fused), 0.5 * (self.low_pass(vis) + self.low_pass(ir)))
        return base + self.weight * detail, base, detail


class FusionDetailLossFixed(FusionDetailLoss):
    def __init__(self, weight=5.0):
        super(FusionDetailLossFixed, self).__init__(weight)
        blur = torch.tensor([[0.0947, 0.1183, 0.0947], [0.1183, 0.1478, 0.1183], [0.0947, 0.1183, 0.0947]])
        sobel = torch.tensor([[1., 0., -1.], [2., 0., -2.], [1., 0., -1.]])
        self.register_buffer("blur", blur.reshape(1, 1, 3, 3), persistent=False)
        self.register_buffer("sobel", torch.stack([sobel, sobel.t()]).unsqueeze(1), persistent=False)

    def low_pass(self, x):
        return F.conv2d(x, self.blur, padding=1)

    def gradient(self, x):
        return F.conv2d(x, self.sobel, padding=1).abs().sum(dim=1, keepdim=True)


def build(loss=FusionDetailLoss):
    torch.manual_seed(0)
    return loss(), tuple(torch.rand(2, 1, 16, 16) for _ in range(3))


def build_fixed():
    return build(FusionDetailLossFixed)
