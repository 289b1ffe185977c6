"""C874 negative (after monodepth2-style kitti_dataset.py, where K is normalised and scaled per pyramid level): a literal that is then written to."""
import torch
import torch.nn as nn

expected = {
    "case": "C874",
    "polarity": "negative",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [26],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "K is scaled in place for every level; one shared buffer would be scaled again and again, within a call and between calls",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.04,
    "speedup_cpu": None,
}


class BackprojectPyramid(nn.Module):
    def __init__(self, scales=3):
        super().__init__()
        self.scales = scales
        self.depth = nn.ModuleList(nn.Conv2d(3, 1, 3, padding=1) for _ in range(scales))

    def intrinsics(self, ref):
        return torch.tensor([[0.58, 0.0, 0.5], [0.0, 1.92, 0.5], [0.0, 0.0, 1.0]], device=ref.device)  # LOOKS-HOT

    def backproject(self, depth):
        b, _, h, w = depth.shape
        K = self.intrinsics(depth)
        K[0] *= w
        K[1] *= h
        ys = torch.arange(h, device=depth.device, dtype=depth.dtype).view(h, 1).expand(h, w)
        xs = torch.arange(w, device=depth.device, dtype=depth.dtype).expand(h, w)
        pix = torch.stack([xs, ys, torch.ones_like(xs)]).flatten(1)
        return torch.linalg.inv(K) @ pix * depth.view(b, 1, -1)

    def forward(self, image):
        clouds = []
        for s in range(self.scales):
            level = nn.functional.avg_pool2d(image, 2**s)
            disp = torch.sigmoid(self.depth[s](level))
            clouds.append(self.backproject(1 / (0.01 + 9.99 * disp)))
        return torch.cat(clouds, dim=2)


class BackprojectPyramidNaive(BackprojectPyramid):
    def __init__(self, scales=3):
        super().__init__(scales)
        K = torch.tensor([[0.58, 0.0, 0.5], [0.0, 1.92, 0.5], [0.0, 0.0, 1.0]])
        self.register_buffer("K", K, persistent=False)

    def intrinsics(self, ref):
        return self.K


def build():
    torch.manual_seed(0)
    return BackprojectPyramid(), (torch.rand(2, 3, 16, 24),)


def build_naive_fix():
    slow, inputs = build()
    naive = BackprojectPyramidNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
