"""C930 (after frgfm/torch-cam _CAM._normalize and pytorch/pytorch#51656): min(-1).values and max(-1).values, indices dropped."""
import torch
from torch import Tensor, nn

expected = {
    "case": "C930",
    "polarity": "positive",
    "kind": "unused_reduction_indices",
    "hot_lines": [28, 29],
    "fix": "amin / amax",
    "auto_fix_safe": True,
    "why": "the maps are made under no_grad, so how amax shares a gradient between ties cannot matter; the values are equal",
    "hot_share_cpu": 0.23,
    "speedup_cpu": 1.65,
}


class CAMExtractor(nn.Module):
    def __init__(self, channels=8, num_classes=16):
        super().__init__()
        self.features = nn.Conv2d(3, channels, 3, stride=2, padding=1)
        self.fc = nn.Linear(channels, num_classes)

    @staticmethod
    @torch.no_grad()
    def _normalize(cams: Tensor, spatial_dims: int = 2) -> Tensor:
        """CAM normalization."""
        cams.sub_(cams.flatten(start_dim=-spatial_dims).min(-1).values[(...,) + (None,) * spatial_dims])  # HOT
        cams.div_(cams.flatten(start_dim=-spatial_dims).max(-1).values[(...,) + (None,) * spatial_dims] + 1e-8)  # HOT
        return cams

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        fmap = torch.relu(self.features(images))
        cams = torch.einsum("kc,bchw->bkhw", self.fc.weight, fmap)
        return self._normalize(torch.relu(cams))


class CAMExtractorFixed(CAMExtractor):
    @staticmethod
    @torch.no_grad()
    def _normalize(cams: Tensor, spatial_dims: int = 2) -> Tensor:
        dims = tuple(range(-spatial_dims, 0))
        cams.sub_(cams.amin(dims, keepdim=True))
        cams.div_(cams.amax(dims, keepdim=True) + 1e-8)
        return cams


def build():
    torch.manual_seed(0)
    return CAMExtractor().eval(), (torch.randn(4, 3, 112, 112),)


def build_fixed():
    slow, inputs = build()
    fast = CAMExtractorFixed().eval()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
