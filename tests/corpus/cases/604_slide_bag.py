"""C604 (after multiple-instance learning on whole slide images): encode tiles in small chunks, pool them with attention."""
import torch
from torch import nn

expected = {
    "case": "C604",
    "polarity": "positive",
    "kind": "cat_in_loop",
    "hot_lines": [31, 35],
    "fix": "list_then_one_cat",
    "auto_fix_safe": True,
    "why": "neither bag is read before the loop is over; two lists and one cat each give the same rows in the same order",
    "hot_share_cpu": 0.41,
    "speedup_cpu": 2.43,
}


class SlideBag(nn.Module):
    def __init__(self, channels=24, width=384, chunk=4):
        super().__init__()
        self.chunk = chunk
        self.encode = nn.Linear(channels, width)
        self.place = nn.Linear(2, width)
        self.score = nn.Linear(width, 1)

    def forward(self, tiles, centres):
        bag, places = None, None
        for tile, xy in zip(tiles.split(self.chunk), centres.split(self.chunk)):
            feat = torch.relu(self.encode(tile))
            spot = self.place(xy)
            bag = feat if bag is None else torch.cat([bag, feat], dim=0)  # HOT
            if places is None:
                places = spot
            else:
                places = torch.cat(tensors=(places, spot))  # HOT
        weight = torch.softmax(self.score(bag + places), dim=0)
        return (weight * bag).sum(dim=0), weight.squeeze(-1)


class SlideBagFixed(SlideBag):
    def forward(self, tiles, centres):
        bag, places = [], []
        for tile, xy in zip(tiles.split(self.chunk), centres.split(self.chunk)):
            bag.append(torch.relu(self.encode(tile)))
            places.append(self.place(xy))
        bag, places = torch.cat(bag), torch.cat(places)
        weight = torch.softmax(self.score(bag + places), dim=0)
        return (weight * bag).sum(dim=0), weight.squeeze(-1)


def build():
    torch.manual_seed(0)
    return SlideBag(), (torch.rand(360, 24), torch.rand(360, 2))


def build_fixed():
    slow, inputs = build()
    fast = SlideBagFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
