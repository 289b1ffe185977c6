"""C501 (after speech recognition training code with a minimum word error rate loss over an n-best list): tokens compared one by one."""
import torch
from torch import nn

expected = {
    "case": "C501",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [31],
    "fix": "tolist_before_loop",
    "auto_fix_safe": True,
    "why": "integer tokens, never written in the loops; the comparison of Python ints gives the same 0 or 1 and no gradient is involved",
    "hot_share_cpu": 0.88,
    "speedup_cpu": 15.59,
}


class ExpectedWordErrors(nn.Module):
    """Expected number of token errors of an n-best list under the rescorer's posterior."""

    def __init__(self, width=32):
        super().__init__()
        self.rescore = nn.Linear(width, 1)

    @staticmethod
    def edit_distance(hyp, ref):
        prev = list(range(len(ref) + 1))
        for i in range(1, len(hyp) + 1):
            cur = [i]
            for j in range(1, len(ref) + 1):
                swap = prev[j - 1] + (0 if hyp[i - 1] == ref[j - 1] else 1)  # HOT
                cur.append(min(prev[j] + 1, cur[j - 1] + 1, swap))
            prev = cur
        return prev[-1]

    def forward(self, feats, hyps, ref):
        posterior = self.rescore(feats).squeeze(-1).softmax(dim=-1)
        errors = [self.edit_distance(h, ref) for h in hyps]
        errors = torch.tensor(errors, dtype=feats.dtype, device=feats.device)
        # subtracting the mean error keeps the variance of the estimate low
        return (posterior * (errors - errors.mean())).sum()


class ExpectedWordErrorsFixed(ExpectedWordErrors):
    @staticmethod
    def edit_distance(hyp, ref):
        hyp, ref = hyp.tolist(), ref.tolist()
        return ExpectedWordErrors.edit_distance(hyp, ref)


def build():
    torch.manual_seed(0)
    hyps = torch.randint(0, 9, (5, 19))
    return ExpectedWordErrors(), (torch.randn(5, 32), hyps, torch.randint(0, 9, (22,)))


def build_fixed():
    slow, inputs = build()
    fast = ExpectedWordErrorsFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
