"""C251 negative (after torchvision NMS re-implementations): a loop over boxes whose test reads what earlier turns wrote."""
import torch
from torch import nn

expected = {
    "case": "C251",
    "polarity": "negative",
    "kind": "scalar_index_loop",
    "hot_lines": [36, 37],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "a box that is already out must not suppress others: alive[i] depends on earlier turns, so neither tolist() before the loop nor one triangle test is right",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.71,
    "speedup_cpu": None,
}


def overlap_1d(spans):
    lo = torch.maximum(spans[:, None, 0], spans[None, :, 0])
    hi = torch.minimum(spans[:, None, 1], spans[None, :, 1])
    size = spans[:, 1] - spans[:, 0]
    inter = (hi - lo).clamp(min=0)
    return inter / (size[:, None] + size[None, :] - inter)


class EventPicker(nn.Module):
    def __init__(self, width=16, limit=0.3):
        super().__init__()
        self.limit = limit
        self.score = nn.Linear(width, 1)

    def survivors(self, iou):
        alive = torch.ones(iou.size(0), dtype=torch.bool, device=iou.device)
        for i in range(iou.size(0)):
            if alive[i]:  # LOOKS-HOT
                alive[i + 1:] &= iou[i, i + 1:] < self.limit  # LOOKS-HOT
        return alive

    def forward(self, feats, spans):
        score, order = self.score(feats).squeeze(-1).sort(descending=True)
        alive = self.survivors(overlap_1d(spans[order]))
        return score[alive], spans[order][alive]


class EventPickerNaive(EventPicker):
    def survivors(self, iou):
        return (iou.triu(1) < self.limit).all(dim=0)


def build():
    torch.manual_seed(0)
    start = torch.rand(80, 1) * 30
    return EventPicker(), (torch.randn(80, 16), torch.cat((start, start + 1 + torch.rand(80, 1)), dim=1))


def build_naive_fix():
    slow, inputs = build()
    naive = EventPickerNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
