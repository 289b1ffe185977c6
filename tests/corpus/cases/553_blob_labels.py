"""C553 negative (after image segmentation post-processing on the device): connected components by spreading labels."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C553",
    "polarity": "negative",
    "kind": "host_sync_item",
    "hot_lines": [40],
    "must_not": "flag the read as avoidable, or offer a fix that drops the test",
    "auto_fix_safe": False,
    "why": "the count ends the loop; how many rounds a shape needs is known only from the data, and the bound is far above it",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.10,
    "speedup_cpu": 0.10,
}


class BlobLabels(nn.Module):
    """Labels each blob of the thresholded score map with the largest pixel number in it."""

    def __init__(self):
        super().__init__()
        self.score = nn.Conv2d(3, 1, 5, padding=2)

    def seeds(self, image):
        solid = self.score(image) > 0.1
        numbers = torch.arange(1, solid[0].numel() + 1, device=image.device, dtype=torch.float32)
        return solid, numbers.view_as(solid[:1]) * solid

    @staticmethod
    def spread(labels, solid):
        return F.max_pool2d(labels, kernel_size=3, stride=1, padding=1) * solid

    def forward(self, image):
        solid, labels = self.seeds(image)
        while True:
            grown = self.spread(labels, solid)
            moved = (grown != labels).sum().item()  # LOOKS-HOT
            labels = grown
            if moved == 0:
                return labels.long()


class BlobLabelsNaive(BlobLabels):
    def forward(self, image):
        solid, labels = self.seeds(image)
        # no path through a blob is longer than half of the pixels
        for _ in range(solid[0].numel() // 2):
            labels = self.spread(labels, solid)
        return labels.long()


def build():
    torch.manual_seed(0)
    return BlobLabels(), (torch.rand(2, 3, 48, 48),)


def build_naive_fix():
    slow, inputs = build()
    naive = BlobLabelsNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
