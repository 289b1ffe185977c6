"""C908 (after ironsword666/POSTagger src/utils/algorithms.py crf): the gold path of each sentence summed tag by tag."""
import torch
from torch import nn

expected = {
    "case": "C908",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [30, 31],
    "fix": "gather_and_mask",
    "auto_fix_safe": False,
    "why": "one gather of the emissions, one 2-d index of the transitions and a length mask; the ragged loop needs a human look",
    "hot_share_cpu": 0.61,
    "speedup_cpu": 4.84,
}


class CRFLoss(nn.Module):
    def __init__(self, tag_nums=12):
        super().__init__()
        self.transition = nn.Parameter(torch.randn(tag_nums, tag_nums) * 0.1)

    def gold_scores(self, scores, tags, lens):
        gold_scores = []
        for i in range(scores.size(0)):
            gold_tags = tags[i]
            old_state = gold_tags[0]
            gold_score = scores[i, 0, old_state]
            for j in range(1, lens[i]):
                new_state = gold_tags[j]  # HOT
                gold_score = gold_score + scores[i, j, new_state] + self.transition[old_state, new_state]  # HOT
                old_state = new_state
            gold_scores.append(gold_score)
        return torch.stack(gold_scores)

    def forward(self, scores, tags, lens):
        batch_size, seq_len, _ = scores.size()
        alpha = [scores[:, 0]]
        for i in range(1, seq_len):
            alpha.append(torch.logsumexp(alpha[-1].unsqueeze(-1) + self.transition, dim=1) + scores[:, i])
        last = torch.stack(alpha, 1)[torch.arange(batch_size), lens - 1]
        return (torch.logsumexp(last, dim=-1) - self.gold_scores(scores, tags, lens)).mean()


class CRFLossFixed(CRFLoss):
    def gold_scores(self, scores, tags, lens):
        keep = torch.arange(tags.size(1), device=tags.device) < lens[:, None]
        emit = scores.gather(2, tags.unsqueeze(-1)).squeeze(-1)
        move = self.transition[tags[:, :-1], tags[:, 1:]]
        return (emit * keep).sum(1) + (move * keep[:, 1:]).sum(1)


def build():
    torch.manual_seed(0)
    return CRFLoss(), (torch.randn(8, 24, 12), torch.randint(0, 12, (8, 24)), torch.randint(10, 25, (8,)))


def build_fixed():
    slow, inputs = build()
    fast = CRFLossFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
