"""C862 negative (after ShuangXieIrene/ssds.pytorch#25 and SSD ports): permute().contiguous() whose copy a later .view depends on."""
import torch
import torch.nn as nn

expected = {
    "case": "C862",
    "polarity": "negative",
    "kind": "contiguous_churn",
    "hot_lines": [29, 30],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the maps wait in a list and are viewed as (batch, -1) further down; without the copy that view raises",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.56,
    "speedup_cpu": None,
}


class MultiBoxHead(nn.Module):
    def __init__(self, channels=(32, 48, 32), num_anchors=4, num_classes=6):
        super(MultiBoxHead, self).__init__()
        self.num_classes = num_classes
        self.loc = nn.ModuleList([nn.Conv2d(c, num_anchors * 4, 3, padding=1) for c in channels])
        self.conf = nn.ModuleList([nn.Conv2d(c, num_anchors * num_classes, 3, padding=1) for c in channels])

    def apply_heads(self, sources):
        loc, conf = list(), list()
        for (x, l, c) in zip(sources, self.loc, self.conf):
            loc.append(l(x).permute(0, 2, 3, 1).contiguous())  # LOOKS-HOT
            conf.append(c(x).permute(0, 2, 3, 1).contiguous())  # LOOKS-HOT
        return loc, conf

    def forward(self, sources):
        loc, conf = self.apply_heads(sources)
        loc = torch.cat([o.view(o.size(0), -1) for o in loc], 1)
        conf = torch.cat([o.view(o.size(0), -1) for o in conf], 1)
        return (
            loc.view(loc.size(0), -1, 4),
            conf.view(conf.size(0), -1, self.num_classes).softmax(dim=-1),
        )


class MultiBoxHeadNaive(MultiBoxHead):
    def apply_heads(self, sources):
        loc, conf = list(), list()
        for (x, l, c) in zip(sources, self.loc, self.conf):
            loc.append(l(x).permute(0, 2, 3, 1))
            conf.append(c(x).permute(0, 2, 3, 1))
        return loc, conf


def build(head=MultiBoxHead):
    torch.manual_seed(0)
    sources = [torch.randn(2, 32, 19, 19), torch.randn(2, 48, 10, 10), torch.randn(2, 32, 5, 5)]
    return head(), (sources,)


def build_naive_fix():
    return build(MultiBoxHeadNaive)
