"""D703 (kind of project: impedance controller for a robot arm, port from numpy): angles are wrapped turn by turn until all fit."""
import math

import torch
from torch import nn

expected = {
    "case": "D703",
    "polarity": "positive",
    "kind": "graph_break_in_loop",
    "hot_lines": [33, 34, 35],
    "fix": "closed_form_without_read",
    "auto_fix_safe": False,
    "why": "subtracting the rounded number of turns needs no loop, but it rounds differently and +-pi itself may change sides",
    "compiled_graphs": {"calls": 1, "slow": 3, "fixed": 1},
    "hot_share_cpu": 0.82,
    "speedup_cpu": 10.16,
}

TURN = 2 * math.pi


class Impedance(nn.Module):
    """Torque along a planned motion; encoders count several turns."""

    def __init__(self, joints=7):
        super().__init__()
        self.stiffness = nn.Parameter(torch.rand(joints, dtype=torch.float64) * 50)
        self.damping = nn.Parameter(torch.rand(joints, dtype=torch.float64) * 5)

    @staticmethod
    def shortest(angle):
        while angle.abs().max().item() > math.pi:  # HOT
            angle = torch.where(angle > math.pi, angle - TURN, angle)  # HOT
            angle = torch.where(angle < -math.pi, angle + TURN, angle)  # HOT
        return angle

    def forward(self, position, velocity, goal):
        error = self.shortest(goal - position)
        return self.stiffness * error - self.damping * velocity


class ImpedanceFixed(Impedance):
    @staticmethod
    def shortest(angle):
        return angle - TURN * torch.round(angle / TURN)


def motion():
    shape = (256, 60, 7)
    position = torch.rand(shape, dtype=torch.float64) * 40 - 20
    return position, torch.randn(shape, dtype=torch.float64), torch.rand(shape[0], 1, 7, dtype=torch.float64) * 6 - 3


def build():
    torch.manual_seed(0)
    return Impedance(), motion()


def build_fixed():
    torch.manual_seed(0)
    return ImpedanceFixed(), motion()
