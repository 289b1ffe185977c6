/** A small model, and how its lines look in an editor. */

export const LINEAR = `
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(1024, 1024)

    def forward(self, x):
        return self.linear(x)
`;

/** The same with a function that builds it. */
export const BUILT = `${LINEAR}

def build():
    return Model().eval(), (torch.zeros(256, 1024),)
`;

export const FORWARD = /^\s*def forward\(self, x\)/;
/** The line that costs something, with its costs. */
export const COSTLY = /return self\.linear\(x\).*%/;
