"""C904 (after GuYuc/WS-DAN.PyTorch utils.py batch_augment, mode drop): the attention map of each image is thresholded alone."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C904",
    "polarity": "positive",
    "kind": "batch_loop_where",
    "hot_lines": [23, 24, 25, 27],
    "fix": "batched_upsample_and_broadcast_threshold",
    "auto_fix_safe": True,
    "why": "interpolate works per sample anyway and the threshold is a per-sample amax that broadcasts",
    "hot_share_cpu": 0.62,
    "speedup_cpu": 1.99,
}


def batch_drop(images, attention_map, theta=0.5, fill=0.0):
    batches, _, imgH, imgW = images.size()
    drop_images = []
    for batch_index in range(batches):
        atten_map = attention_map[batch_index:batch_index + 1]  # HOT
        theta_d = theta * atten_map.max()  # HOT
        atten_up = F.interpolate(atten_map, size=(imgH, imgW), mode="bilinear", align_corners=True)  # HOT
        image = images[batch_index:batch_index + 1]
        drop_images.append(torch.where(atten_up < theta_d, image, torch.full_like(image, fill)))  # HOT
    return torch.cat(drop_images, dim=0)


def batch_drop_fixed(images, attention_map, theta=0.5, fill=0.0):
    theta_d = theta * attention_map.amax(dim=(1, 2, 3), keepdim=True)
    atten_up = F.interpolate(attention_map, size=images.shape[2:], mode="bilinear", align_corners=True)
    return torch.where(atten_up < theta_d, images, torch.full_like(images, fill))


class WSDANLite(nn.Module):
    drop = staticmethod(batch_drop)

    def __init__(self, M=8, width=8, num_classes=10):
        super().__init__()
        self.features = nn.Conv2d(3, width, 5, stride=4, padding=2)
        self.attentions = nn.Conv2d(width, M, 1)
        self.fc = nn.Linear(width, num_classes)

    def forward(self, x):
        feature_maps = self.features(x).relu()
        attention_map = self.attentions(feature_maps).relu().mean(1, keepdim=True)
        drop_images = self.drop(x, attention_map.detach())
        p = self.fc(feature_maps.mean((2, 3)))
        return p, self.fc(self.features(drop_images).relu().mean((2, 3)))


class WSDANLiteFixed(WSDANLite):
    drop = staticmethod(batch_drop_fixed)


def build():
    torch.manual_seed(0)
    return WSDANLite(), (torch.rand(32, 3, 24, 24),)


def build_fixed():
    slow, inputs = build()
    fast = WSDANLiteFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
