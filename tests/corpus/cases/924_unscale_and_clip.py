"""C924 (after deepspeedai/DeepSpeed#5632, unscale_and_clip_grads): `if clip > 1` on a device tensor stalls the step per group."""
import torch
from torch import nn

expected = {
    "case": "C924",
    "polarity": "positive",
    "kind": "implicit_host_sync",
    "hot_lines": [32],
    "fix": "torch.clamp(clip, min=1.0)",
    "auto_fix_safe": False,
    "why": "a Python if on a 0-d tensor; clamp gives the same factor, except for a NaN norm, which the comparison lets through",
    "gpu_only": True,
    "hot_share_cpu": 0.03,
    "speedup_cpu": 1.02,
}


class ShardedStep(nn.Module):
    """One accumulation step: loss, gradients per layer group, unscale and clip."""

    def __init__(self, hidden=16, num_groups=24, clip_grad=0.05, loss_scale=128.0):
        super().__init__()
        self.groups = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(num_groups))
        self.clip_grad = clip_grad
        self.loss_scale = loss_scale

    def unscale_and_clip_grads(self, grad_group_flat, total_norm):
        combined_scale = self.loss_scale
        if self.clip_grad > 0.0:
            clip = ((total_norm / self.loss_scale) + 1e-6) / self.clip_grad
            if clip > 1:  # HOT
                combined_scale = clip * self.loss_scale
        return grad_group_flat * (1.0 / combined_scale)

    def forward(self, x, target):
        h = x
        for layer in self.groups:
            h = h + torch.tanh(layer(h))
        loss = (h - target).square().mean()
        grads = torch.autograd.grad(loss * self.loss_scale, list(self.parameters()))
        flat = []
        for w, b in zip(grads[0::2], grads[1::2]):
            group = torch.cat([w.reshape(-1), b])
            flat.append(self.unscale_and_clip_grads(group, group.norm()))
        return loss.detach(), torch.cat(flat)


class ShardedStepFixed(ShardedStep):
    def unscale_and_clip_grads(self, grad_group_flat, total_norm):
        combined_scale = self.loss_scale
        if self.clip_grad > 0.0:
            clip = ((total_norm / self.loss_scale) + 1e-6) / self.clip_grad
            combined_scale = torch.clamp(clip, min=1.0) * self.loss_scale
        return grad_group_flat * (1.0 / combined_scale)


def build():
    torch.manual_seed(0)
    return ShardedStep(), (torch.randn(8, 16), torch.randn(8, 16))


def build_fixed():
    slow, inputs = build()
    fast = ShardedStepFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
