"""C603 (after inertial navigation baselines in robotics repositories): integrate gyroscope and accelerometer logs into a track."""
import torch
from torch import nn

expected = {
    "case": "C603",
    "polarity": "positive",
    "kind": "no_grad_to_inference_mode",
    "hot_lines": [32, 33, 38, 39, 40, 41, 42, 43],
    "fix": "torch.inference_mode()",
    "auto_fix_safe": True,
    "why": "the track made under the guard is only measured, and leaves forward as Python numbers; nothing of it reaches autograd",
    "hot_share_cpu": 0.96,
    "speedup_cpu": 1.21,
}


class Strapdown(nn.Module):
    """Dead reckoning with learned sensor biases; reports how far each log ends from its reference."""

    def __init__(self, rate=200.0):
        super().__init__()
        self.dt = 1.0 / rate
        self.gyro_bias = nn.Parameter(torch.randn(3) * 0.01)
        self.accel_bias = nn.Parameter(torch.randn(3) * 0.01)
        skew = torch.zeros(3, 3, 3)
        skew[0, 2, 1] = skew[1, 0, 2] = skew[2, 1, 0] = 1.0
        skew[0, 1, 2] = skew[1, 2, 0] = skew[2, 0, 1] = -1.0
        self.register_buffer("skew", skew)
        self.register_buffer("gravity", torch.tensor([[0.0, 0.0, -9.81]]))

    @torch.no_grad()  # HOT
    def track(self, gyro, accel):  # HOT
        logs = gyro.size(1)
        att = torch.eye(3).repeat(logs, 1, 1)
        vel, pos = torch.zeros(2, logs, 3).unbind()
        turns = torch.tensordot(gyro - self.gyro_bias, self.skew, dims=1)
        for turn, felt in zip(turns, accel - self.accel_bias):  # HOT
            att = torch.baddbmm(att, att, turn, alpha=self.dt)  # HOT
            att = att / att.norm(dim=-1, keepdim=True)  # HOT
            force = (att @ felt[..., None])[..., 0]  # HOT
            vel.add_(force + self.gravity, alpha=self.dt)  # HOT
            pos.add_(vel, alpha=self.dt)  # HOT
        return pos, att

    def forward(self, gyro, accel, reference):
        pos, att = self.track(gyro, accel)
        drift = (pos - reference).norm(dim=-1)
        return drift.tolist(), att[:, 2, 2].clamp(-1, 1).arccos().max().item()


class StrapdownFixed(Strapdown):
    @torch.inference_mode()
    def track(self, gyro, accel):
        return Strapdown.track.__wrapped__(self, gyro, accel)


def build():
    torch.manual_seed(0)
    return Strapdown(), (torch.randn(120, 4, 3), torch.randn(120, 4, 3), torch.randn(4, 3))


def build_fixed():
    slow, inputs = build()
    fast = StrapdownFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
