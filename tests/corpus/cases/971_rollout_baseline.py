"""C971 negative (after ai4co/rl4co#272): the normalised advantage is made under no_grad and weights the policy's log-likelihood."""
import torch
from torch import nn

expected = {
    "case": "C971",
    "polarity": "negative",
    "kind": "no_grad_to_inference_mode",
    "hot_lines": [24, 25],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "REINFORCE multiplies advantage and log-likelihood, so autograd saves the advantage; an inference tensor raises there",
    "naive_fix_outcome": "raises",
    "hot_share_cpu": 0.32,
    "speedup_cpu": None,
}


class CriticBaseline(nn.Module):
    def __init__(self, embed_dim=32):
        super().__init__()
        self.value_head = nn.Sequential(nn.Linear(2, embed_dim), nn.ReLU(), nn.Linear(embed_dim, 1))

    @torch.no_grad()  # LOOKS-HOT
    def advantage(self, locs, reward):  # LOOKS-HOT
        bl_val = self.value_head(locs).squeeze(-1).mean(dim=-1)
        adv = reward - bl_val
        return (adv - adv.mean()) / (adv.std() + 1e-8)


class CriticBaselineNaive(CriticBaseline):
    @torch.inference_mode()
    def advantage(self, locs, reward):
        return CriticBaseline.advantage.__wrapped__(self, locs, reward)


class REINFORCE(nn.Module):
    def __init__(self, baseline, embed_dim=32):
        super().__init__()
        self.policy = nn.Sequential(nn.Linear(2, embed_dim), nn.Tanh(), nn.Linear(embed_dim, 1))
        self.baseline = baseline

    def forward(self, locs, reward):
        log_likelihood = self.policy(locs).squeeze(-1).log_softmax(-1).amax(-1)
        advantage = self.baseline.advantage(locs, reward)
        return -(advantage * log_likelihood).mean()


def build():
    torch.manual_seed(0)
    return REINFORCE(CriticBaseline()), (torch.rand(16, 50, 2), torch.randn(16))


def build_naive_fix():
    slow, inputs = build()
    naive = REINFORCE(CriticBaselineNaive())
    naive.load_state_dict(slow.state_dict())
    return naive, inputs
