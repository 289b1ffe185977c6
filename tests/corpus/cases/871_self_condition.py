"""C871 negative (after lucidrains/denoising-diffusion-pytorch#286): a first guess made without gradients is fed back into the training pass."""
import torch
import torch.nn as nn
import torch.nn.functional as F

expected = {
    "case": "C871",
    "polarity": "negative",
    "kind": "no_grad_to_inference_mode",
    "hot_lines": [41],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the guess is the input of a conv that trains, so its backward has to save it; inference tensors cannot be saved",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.31,
    "speedup_cpu": None,
}


class TinyDenoiser(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.time = nn.Linear(1, dim)
        self.inp = nn.Conv1d(1, dim, 3, padding=1)
        self.cond = nn.Conv1d(1, dim, 3, padding=1, bias=False)
        self.out = nn.Conv1d(dim, 1, 3, padding=1)

    def forward(self, x, t, x_self_cond=None):
        h = self.inp(x) + self.time(t[:, None])[:, :, None]
        if x_self_cond is not None:
            h = h + self.cond(x_self_cond)
        return self.out(F.silu(h))


class GaussianDiffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = TinyDenoiser()
        self.register_buffer("alphas_cumprod", torch.linspace(0.99, 0.01, 100))

    @torch.no_grad()  # LOOKS-HOT
    def predict_start(self, x, t):
        return self.model(x, t / 100.0).clamp(-1.0, 1.0)

    def forward(self, x_start, t, noise):
        a = self.alphas_cumprod[t][:, None, None]
        x = a.sqrt() * x_start + (1 - a).sqrt() * noise
        x_self_cond = self.predict_start(x, t)
        out = self.model(x, t / 100.0, x_self_cond)
        return F.mse_loss(out, x_start)


class GaussianDiffusionNaive(GaussianDiffusion):
    @torch.inference_mode()
    def predict_start(self, x, t):
        return self.model(x, t / 100.0).clamp(-1.0, 1.0)


def build():
    torch.manual_seed(0)
    return GaussianDiffusion(), (torch.randn(4, 1, 32), torch.randint(0, 100, (4,)), torch.randn(4, 1, 32))


def build_naive_fix():
    slow, inputs = build()
    naive = GaussianDiffusionNaive()
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
