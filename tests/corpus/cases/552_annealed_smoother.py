"""C552 negative (after motion-capture and pose smoothing code): a Gaussian smoothing matrix whose width shrinks during training."""
import torch
from torch import nn

expected = {
    "case": "C552",
    "polarity": "negative",
    "kind": "constant_rebuilt_each_forward",
    "hot_lines": [31, 32],
    "must_not": "offer a safe fix that keeps the matrix from the constructor or from the first call",
    "auto_fix_safe": False,
    "why": "the width is an attribute that the training loop lowers through anneal(), and the size follows the clip",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.81,
    "speedup_cpu": None,
}


class PoseSmoother(nn.Module):
    def __init__(self, joints=5, width=9.0, floor=1.0):
        super().__init__()
        self.width, self.floor = width, floor
        self.mix = nn.Linear(joints * 3, joints * 3)

    def anneal(self, progress):
        """Called by the trainer at the start of each epoch, progress in [0, 1]."""
        self.width = max(self.floor, self.width * (1.0 - progress))

    def kernel(self, frames):
        gap = torch.arange(frames).unsqueeze(1) - torch.arange(frames)
        weight = torch.exp(-0.5 * (gap / self.width) ** 2)  # LOOKS-HOT
        return weight / weight.sum(dim=1, keepdim=True)  # LOOKS-HOT

    def forward(self, poses):
        smooth = torch.matmul(self.kernel(poses.size(1)), poses)
        return smooth + self.mix(poses - smooth)


class PoseSmootherNaive(PoseSmoother):
    def __init__(self, frames=420):
        super().__init__()
        self.register_buffer("weights", PoseSmoother.kernel(self, frames), persistent=False)

    def kernel(self, frames):
        return self.weights


def build():
    torch.manual_seed(0)
    model = PoseSmoother()
    model.anneal(0.4)
    return model, (torch.randn(1, 420, 15),)


def build_naive_fix():
    slow, inputs = build()
    naive = PoseSmootherNaive()
    naive.load_state_dict(slow.state_dict())
    naive.anneal(0.4)
    return naive, inputs
