"""C503 (after music transcription and symbolic music projects): a table of notes is drawn into a piano roll."""
import torch
from torch import nn

expected = {
    "case": "C503",
    "polarity": "positive",
    "kind": "item_in_loop",
    "hot_lines": [29],
    "fix": "tolist_before_loop",
    "auto_fix_safe": True,
    "why": "the note table is an integer input that nothing writes; tolist() yields the same Python ints in the same order",
    "hot_share_cpu": 0.49,
    "speedup_cpu": 2.23,
}


class PianoRollEncoder(nn.Module):
    """Notes as (pitch, onset frame, length, velocity); later notes overwrite earlier ones."""

    def __init__(self, frames=200, pitches=88, width=12):
        super().__init__()
        self.frames, self.pitches = frames, pitches
        self.embed = nn.Linear(pitches, width)

    def render(self, notes):
        roll = torch.zeros(self.frames, self.pitches, device=notes.device)
        for note in notes:
            pitch, onset, length, velocity = (v.item() for v in note)  # HOT
            roll[onset:onset + length, pitch] = velocity / 127.0
        return roll

    def forward(self, songs):
        rolls = torch.stack([self.render(notes) for notes in songs])
        return torch.relu(self.embed(rolls))


class PianoRollEncoderFixed(PianoRollEncoder):
    def render(self, notes):
        roll = torch.zeros(self.frames, self.pitches, device=notes.device)
        for pitch, onset, length, velocity in notes.tolist():
            roll[onset:onset + length, pitch] = velocity / 127.0
        return roll


def build():
    torch.manual_seed(0)
    high = torch.tensor([88, 180, 24, 127])
    songs = (torch.rand(4, 120, 4) * high).long() + torch.tensor([0, 0, 1, 1])
    return PianoRollEncoder(), (songs,)


def build_fixed():
    slow, inputs = build()
    fast = PianoRollEncoderFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
