"""C403 (after offline RL sequence policies): logits after the end of each episode are filled step by step, last step first."""
import torch
from torch import nn

expected = {
    "case": "C403",
    "polarity": "positive",
    "kind": "mask_loop",
    "hot_lines": [34, 35],
    "fix": "broadcast_masked_fill",
    "auto_fix_safe": True,
    "why": "each step fills its own slice of a fresh tensor from a fixed end time; one comparison with arange covers all steps",
    "hot_share_cpu": 0.73,
    "speedup_cpu": 3.84,
}


class ReplayPolicy(nn.Module):
    """Scores every action of a logged rollout; steps past the terminal state score `floor`."""

    def __init__(self, obs_dim=17, n_actions=6, floor=-1e4):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh(), nn.Linear(32, n_actions))
        self.floor = floor

    @staticmethod
    def first_done(done):
        # episodes that never end get an index past the horizon
        index = done.to(torch.int64).argmax(dim=1)
        return torch.where(done.any(dim=1), index, done.size(1))

    def close(self, logits, end):
        for t in reversed(range(logits.shape[1])):
            over = end.lt(t).unsqueeze(-1)  # HOT
            logits[:, t].masked_fill_(over, self.floor)  # HOT
        return logits

    def forward(self, obs, done):
        logits = self.trunk(obs.float())
        return self.close(logits, self.first_done(done)).log_softmax(-1)


class ReplayPolicyFixed(ReplayPolicy):
    def close(self, logits, end):
        steps = torch.arange(logits.shape[1], device=end.device)
        return logits.masked_fill((end[:, None] < steps).unsqueeze(-1), self.floor)


def build():
    torch.manual_seed(0)
    obs = torch.randn(12, 180, 17, dtype=torch.float64)
    return ReplayPolicy(), (obs, torch.rand(12, 180) < 0.015)


def build_fixed():
    slow, inputs = build()
    fast = ReplayPolicyFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
