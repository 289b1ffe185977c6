"""C810 (after jwyang/faster-rcnn.pytorch#3 and nguyendu394/Perdestrian- myRoi.py): RoI pooling in Python, five reads per box."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C810",
    "polarity": "positive",
    "kind": "item_in_loop",
    "hot_lines": [29, 30, 31],
    "fix": "tolist_once_before_loop",
    "auto_fix_safe": True,
    "why": "nobody writes rois or boxes in the loop, so one tolist() each gives the same five numbers per box in two copies",
    "hot_share_cpu": 0.39,
    "speedup_cpu": 1.78,
}


class RoIPooling2D(nn.Module):
    def __init__(self, size=(3, 3), spatial_scale=1.0 / 16):
        super(RoIPooling2D, self).__init__()
        self.size = size
        self.spatial_scale = spatial_scale

    def forward(self, features, rois):
        output = []
        boxes = (rois[:, 1:] * self.spatial_scale).long()
        for i in range(rois.size(0)):
            im_idx = int(rois[i, 0].item())  # HOT
            x1, y1 = boxes[i, 0].item(), boxes[i, 1].item()  # HOT
            x2, y2 = boxes[i, 2].item(), boxes[i, 3].item()  # HOT
            im = features[im_idx, :, y1:y2 + 1, x1:x2 + 1]
            output.append(F.adaptive_max_pool2d(im, self.size))
        return torch.stack(output)


class RoIPooling2DFixed(RoIPooling2D):
    def forward(self, features, rois):
        output = []
        boxes = (rois[:, 1:] * self.spatial_scale).long().tolist()
        for im_idx, (x1, y1, x2, y2) in zip(rois[:, 0].long().tolist(), boxes):
            im = features[im_idx, :, y1:y2 + 1, x1:x2 + 1]
            output.append(F.adaptive_max_pool2d(im, self.size))
        return torch.stack(output)


class BoxHead(nn.Module):
    def __init__(self, pool, channels=16, classes=5):
        super(BoxHead, self).__init__()
        self.pool = pool
        self.cls_score = nn.Linear(channels * 9, classes)

    def forward(self, features, rois):
        return self.cls_score(self.pool(features, rois).flatten(1))


def build():
    torch.manual_seed(0)
    corner, extent = torch.rand(64, 2) * 250, torch.rand(64, 2) * 120 + 20
    image = torch.randint(0, 2, (64, 1)).float()
    return BoxHead(RoIPooling2D()), (torch.randn(2, 16, 25, 25), torch.cat([image, corner, corner + extent], dim=1))


def build_fixed():
    slow, inputs = build()
    fast = BoxHead(RoIPooling2DFixed())
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
