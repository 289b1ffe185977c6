"""C917 (after layumi/Person_reID_baseline_pytorch test.py, extract_feature): the gallery matrix grows by cat, chunk by chunk."""
import torch
from torch import nn

expected = {
    "case": "C917",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [42],
    "fix": "append_then_cat_once",
    "auto_fix_safe": True,
    "why": "features is only extended inside the loop and read after it, so a list and one cat give the same matrix",
    "hot_share_cpu": 0.20,
    "speedup_cpu": 1.43,
}


def fliplr(img):
    """flip horizontal"""
    return img.flip(3)


class GalleryExtractor(nn.Module):
    def __init__(self, linear_num=256, batchsize=16):
        super().__init__()
        self.batchsize = batchsize
        self.model = nn.Sequential(nn.AvgPool2d(4), nn.Flatten(), nn.Linear(96, linear_num), nn.ReLU())

    def embed(self, img):
        ff = 0
        for i in range(2):
            if i == 1:
                img = fliplr(img)
            ff = ff + self.model(img)
        fnorm = torch.norm(ff, p=2, dim=1, keepdim=True)
        return ff.div(fnorm.expand_as(ff))

    def forward(self, gallery):
        features = torch.FloatTensor()
        for img in gallery.split(self.batchsize):
            ff = self.embed(img)
            features = torch.cat((features, ff), 0)  # HOT
        return features


class GalleryExtractorFixed(GalleryExtractor):
    def forward(self, gallery):
        features = []
        for img in gallery.split(self.batchsize):
            features.append(self.embed(img))
        return torch.cat(features, 0)


def build():
    torch.manual_seed(0)
    return GalleryExtractor(), (torch.rand(1600, 3, 32, 16),)


def build_fixed():
    slow, inputs = build()
    fast = GalleryExtractorFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
