"""C841 (after hszhao/semseg#60, chrischoy/FCGF#15, OpenNMT-py#1141): a sliding-window tester that records a graph nobody uses."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C841",
    "polarity": "positive",
    "kind": "missing_no_grad",
    "hot_lines": [39, 42, 50],
    "fix": "torch.no_grad or torch.inference_mode on the tester",
    "auto_fix_safe": True,
    "why": "the net is in eval mode and only an integer label map leaves; every crop still adds nodes to the canvas graph",
    "hot_share_cpu": 0.18,
    "speedup_cpu": 1.22,
}


def conv_bn(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class TinySeg(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body = nn.Sequential(conv_bn(3, 8), conv_bn(8, 8), nn.Conv2d(8, classes, 1))

    def forward(self, x):
        return self.body(x)


class SlideTester(nn.Module):
    def __init__(self, classes=5, crop=16, stride=8):
        super().__init__()
        self.net = TinySeg(classes)
        self.classes, self.crop, self.stride = classes, crop, stride

    def net_process(self, patch):
        out = F.softmax(self.net(torch.cat([patch, patch.flip(3)])), dim=1)  # HOT
        return (out[:1] + out[1:].flip(3)) / 2

    def forward(self, image):  # HOT
        self.net.eval()
        _, _, h, w = image.shape
        pred = image.new_zeros(1, self.classes, h, w)
        count = image.new_zeros(1, 1, h, w)
        for y in range(0, h - self.crop + 1, self.stride):
            for x in range(0, w - self.crop + 1, self.stride):
                ys, xs = slice(y, y + self.crop), slice(x, x + self.crop)
                pred[:, :, ys, xs] += self.net_process(image[:, :, ys, xs])  # HOT
                count[:, :, ys, xs] += 1
        return (pred / count).argmax(dim=1)


class SlideTesterFixed(SlideTester):
    @torch.no_grad()
    def forward(self, image):
        return super().forward(image)


def build():
    torch.manual_seed(0)
    return SlideTester(), (torch.randn(1, 3, 64, 64),)


def build_fixed():
    slow, inputs = build()
    fast = SlideTesterFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
