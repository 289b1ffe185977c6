"""C861 negative (after apchenstu/TensoRF models/tensorBase.py): colours are computed only for the few samples that carry weight."""
import torch
import torch.nn as nn

expected = {
    "case": "C861",
    "polarity": "negative",
    "kind": "bool_mask_assign",
    "hot_lines": [34, 35],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "about one sample in twenty passes; torch.where would run the colour network on all of them",
    "naive_fix_outcome": "slower",
    "hot_share_cpu": 0.41,
    "speedup_cpu": 0.30,
}


class RadianceRenderer(nn.Module):
    def __init__(self, feature_c=96, weight_thres=0.05):
        super().__init__()
        self.density = nn.Linear(3, 1)
        self.mlp = nn.Sequential(nn.Linear(6, feature_c), nn.ReLU(inplace=True), nn.Linear(feature_c, 3))
        self.weight_thres = weight_thres

    def raw2alpha(self, sigma, dist):
        alpha = 1. - torch.exp(-sigma * dist)
        T = torch.cumprod(torch.cat([torch.ones_like(alpha[:, :1]), 1. - alpha + 1e-10], -1), -1)
        return alpha * T[:, :-1]

    def render_rgb(self, xyz_sampled, viewdirs, app_mask):
        rgb = torch.zeros_like(xyz_sampled)
        if app_mask.any():
            valid = torch.cat([xyz_sampled[app_mask], viewdirs[app_mask]], dim=-1)  # LOOKS-HOT
            rgb[app_mask] = torch.sigmoid(self.mlp(valid))  # LOOKS-HOT
        return rgb

    def forward(self, xyz_sampled, viewdirs, dists):
        viewdirs = viewdirs.view(-1, 1, 3).expand(xyz_sampled.shape)
        sigma = nn.functional.softplus(self.density(xyz_sampled).squeeze(-1) * 4)
        weight = self.raw2alpha(sigma, dists)
        app_mask = weight > self.weight_thres
        rgb = self.render_rgb(xyz_sampled, viewdirs, app_mask)
        return torch.sum(weight[..., None] * rgb, -2)


class RadianceRendererNaive(RadianceRenderer):
    def render_rgb(self, xyz_sampled, viewdirs, app_mask):
        full = torch.sigmoid(self.mlp(torch.cat([xyz_sampled, viewdirs], dim=-1)))
        return torch.where(app_mask.unsqueeze(-1), full, torch.zeros_like(full))


def build(renderer=RadianceRenderer):
    torch.manual_seed(0)
    dirs = nn.functional.normalize(torch.randn(128, 3), dim=-1)
    return renderer(), (torch.randn(128, 96, 3), dirs, torch.full((128, 96), 0.03))


def build_naive_fix():
    return build(RadianceRendererNaive)
