"""C881 (after isayevlab/aimnetcentral#109, prime-rl#996, pytorch#88857): .item() in the sampler loop keeps Dynamo from compiling the frame."""
import torch
import torch.nn as nn

expected = {
    "case": "C881",
    "polarity": "positive",
    "kind": "graph_break_in_loop",
    "hot_lines": [42],
    "fix": "keep_sigma_as_tensor",
    "auto_fix_safe": False,
    "why": "the break sits in a for loop, so Dynamo drops the whole frame and compiles only the inner net; with 0-d tensors the loop is one graph",
    "compiled_graphs": {"calls": 1, "slow": 2, "fixed": 1},
    "gpu_only": True,
    "hot_share_cpu": 0.04,
    "speedup_cpu": 0.98,
}


class Denoiser(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.inp = nn.Linear(dim + 1, dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x, c_noise):
        return self.out(torch.tanh(self.inp(torch.cat([x, c_noise.expand(x.size(0), 1)], dim=1))))


class EulerSampler(nn.Module):
    def __init__(self, dim=32, steps=8, s_tmin=0.05, s_tmax=4.0, churn=0.2):
        super().__init__()
        self.net = Denoiser(dim)
        ramp = torch.linspace(0, 1, steps)
        sigmas = (10 ** (1 / 7) + ramp * (0.02 ** (1 / 7) - 10 ** (1 / 7))) ** 7
        self.register_buffer("sigmas", torch.cat([sigmas, sigmas.new_zeros(1)]))
        self.s_tmin, self.s_tmax, self.churn = s_tmin, s_tmax, churn

    def forward(self, x):
        x = x * self.sigmas[0]
        for i in range(len(self.sigmas) - 1):
            sigma = self.sigmas[i].item()  # HOT
            gamma = self.churn if self.s_tmin <= sigma <= self.s_tmax else 0.0
            hat = sigma * (1 + gamma)
            denoised = self.net(x / (1 + hat), self.sigmas[i].log())
            x = x + (x - denoised) / hat * (self.sigmas[i + 1] - hat)
        return x


class EulerSamplerFixed(EulerSampler):
    def forward(self, x):
        x = x * self.sigmas[0]
        inside = (self.sigmas >= self.s_tmin) & (self.sigmas <= self.s_tmax)
        hats = self.sigmas * (1 + self.churn * inside)
        for i in range(len(self.sigmas) - 1):
            denoised = self.net(x / (1 + hats[i]), self.sigmas[i].log())
            x = x + (x - denoised) / hats[i] * (self.sigmas[i + 1] - hats[i])
        return x


def build():
    torch.manual_seed(0)
    return EulerSampler(), (torch.randn(16, 32),)


def build_fixed():
    slow, inputs = build()
    fast = EulerSamplerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
