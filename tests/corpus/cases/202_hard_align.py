"""C202 (after Glow-TTS / DurIAN style aligners, pytorch#43116): a hard alignment grid filled cell by cell."""
import torch
from torch import nn

expected = {
    "case": "C202",
    "polarity": "positive",
    "kind": "scalar_index_loop",
    "hot_lines": [28],
    "fix": "one_index_put",
    "auto_fix_safe": True,
    "why": "the grid is fresh and every (b, t) pair is written once, so no order exists; advanced indexing also accepts the same negative ids",
    "hot_share_cpu": 0.82,
    "speedup_cpu": 12.45,
}


class HardAligner(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.probe = nn.Linear(width, width, bias=False)

    def spread(self, conf, owner, n_text):
        grid = conf.new_zeros(conf.size(0), n_text, conf.size(1))
        for b, (row, ids) in enumerate(zip(conf, owner)):
            t = 0
            while t < ids.numel():
                grid[b, ids[t], t] = row[t]  # HOT
                t += 1
        return grid

    def forward(self, frames, text, owner):
        conf = torch.sigmoid((self.probe(frames) * frames).mean(-1))
        grid = self.spread(conf, owner, text.size(1))
        return torch.bmm(grid, frames), torch.einsum("bnt,bnd->btd", grid, text)


class HardAlignerFixed(HardAligner):
    def spread(self, conf, owner, n_text):
        grid = conf.new_zeros(conf.size(0), n_text, conf.size(1))
        b = torch.arange(conf.size(0), device=conf.device).unsqueeze(1)
        t = torch.arange(conf.size(1), device=conf.device)
        grid[b, owner, t] = conf
        return grid


def build():
    torch.manual_seed(0)
    owner = torch.randint(0, 20, (4, 60)).sort(dim=1).values
    return HardAligner(), (torch.randn(4, 60, 16), torch.randn(4, 20, 16), owner)


def build_fixed():
    slow, inputs = build()
    fast = HardAlignerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
