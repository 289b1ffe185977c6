"""C849 (after pytorch#36900/#43092 and the chamfer metric of PointFlow-style evaluation code): nearest distances that drag indices along."""
import torch
import torch.nn as nn

expected = {
    "case": "C849",
    "polarity": "positive",
    "kind": "unused_reduction_indices",
    "hot_lines": [31],
    "fix": "amin",
    "auto_fix_safe": True,
    "why": "the metric runs under no_grad, so ties cannot show up in a gradient; values of min(dim) and amin are the same",
    "hot_share_cpu": 0.55,
    "speedup_cpu": 2.00,
}


def pairwise_sq(x, y):
    xx = x.square().sum(dim=-1)
    yy = y.square().sum(dim=-1)
    return xx.unsqueeze(2) + yy.unsqueeze(1) - 2 * torch.bmm(x, y.transpose(1, 2))


class ChamferEval(nn.Module):
    def __init__(self, batch=3):
        super().__init__()
        self.batch = batch

    def dist_chamfer(self, a, b):
        p = pairwise_sq(a, b)
        return p.min(1)[0], p.min(2)[0]  # HOT

    def row(self, sample, refs):
        cds = []
        for start in range(0, refs.size(0), self.batch):
            ref = refs[start : start + self.batch]
            dl, dr = self.dist_chamfer(sample.expand(ref.size(0), -1, -1), ref)
            cds.append(dl.mean(dim=1) + dr.mean(dim=1))
        return torch.cat(cds)

    @torch.no_grad()
    def forward(self, samples, refs):
        all_cd = torch.stack([self.row(s.unsqueeze(0), refs) for s in samples])
        nearest_cd, nearest = all_cd.min(dim=1)
        cov = nearest.unique().numel() / refs.size(0)
        return nearest_cd.mean(), cov


class ChamferEvalFixed(ChamferEval):
    def dist_chamfer(self, a, b):
        p = pairwise_sq(a, b)
        return p.amin(1), p.amin(2)


def build():
    torch.manual_seed(0)
    return ChamferEval(), (torch.randn(6, 100, 3), torch.randn(12, 100, 3))


def build_fixed():
    return ChamferEvalFixed(), build()[1]
