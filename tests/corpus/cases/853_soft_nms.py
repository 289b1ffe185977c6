"""C853 negative (after DocF/Soft-NMS): every box against the rest, but the decayed scores choose which box comes next."""
import torch
from torch import nn

expected = {
    "case": "C853",
    "polarity": "negative",
    "kind": "pairwise_loop",
    "hot_lines": [42, 43],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the order is decided by scores that earlier rounds have lowered; one decay matrix over the initial order is another algorithm",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.67,
    "speedup_cpu": None,
}


def box_iou(a, b):
    lt = torch.max(a[..., :2], b[..., :2])
    rb = torch.min(a[..., 2:], b[..., 2:])
    inter = (rb - lt).clamp(min=0).prod(dim=-1)
    area_a = (a[..., 2:] - a[..., :2]).prod(dim=-1)
    area_b = (b[..., 2:] - b[..., :2]).prod(dim=-1)
    return inter / (area_a + area_b - inter)


class SoftNMS(nn.Module):
    def __init__(self, sigma=0.5, thresh=0.05):
        super(SoftNMS, self).__init__()
        self.sigma = sigma
        self.thresh = thresh

    def forward(self, dets, box_scores):
        dets, scores = dets.clone(), box_scores.clone()
        N = dets.size(0)
        for i in range(N - 1):
            # swap the best of the rest to position i
            m = i + torch.argmax(scores[i:]).item()
            dets[[i, m]] = dets[[m, i]]
            scores[[i, m]] = scores[[m, i]]
            iou = box_iou(dets[i], dets[i + 1:])  # LOOKS-HOT
            scores[i + 1:] = scores[i + 1:] * torch.exp(-(iou * iou) / self.sigma)  # LOOKS-HOT
        return dets, scores, scores > self.thresh


class SoftNMSNaive(SoftNMS):
    def forward(self, dets, box_scores):
        scores, order = box_scores.sort(descending=True)
        dets = dets[order]
        iou = box_iou(dets.unsqueeze(1), dets.unsqueeze(0)).triu(1)
        scores = scores * torch.exp(-(iou * iou) / self.sigma).prod(dim=0)
        return dets, scores, scores > self.thresh


def build():
    torch.manual_seed(0)
    corner = torch.rand(60, 2) * 60
    return SoftNMS(), (torch.cat([corner, corner + 20 + torch.rand(60, 2) * 30], dim=1), torch.rand(60))


def build_naive_fix():
    return SoftNMSNaive(), build()[1]
