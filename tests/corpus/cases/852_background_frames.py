"""C852 negative (after SK-Tareen/Foreign-object-detection-CV- bg_model.py): frames compared with a background that they also update."""
import torch
import torch.nn as nn

expected = {
    "case": "C852",
    "polarity": "negative",
    "kind": "batch_loop_where",
    "hot_lines": [32, 33],
    "must_not": "auto_fix",
    "auto_fix_safe": False,
    "why": "the batch is a video: each where reads the background the previous frame wrote, and the mask decides what is written",
    "naive_fix_outcome": "differs",
    "hot_share_cpu": 0.55,
    "speedup_cpu": None,
}


class RunningBackground(nn.Module):
    def __init__(self, alpha=0.3, threshold=0.15):
        super(RunningBackground, self).__init__()
        self.alpha = alpha
        self.threshold = threshold

    def forward(self, frames):
        # frames: num_frames x 3 x H x W, in order
        background = frames[0]
        masks = []
        for i in range(frames.size(0)):
            diff = (frames[i] - background).abs().amax(dim=0, keepdim=True)
            fg = diff > self.threshold
            blended = (1 - self.alpha) * background + self.alpha * frames[i]  # LOOKS-HOT
            background = torch.where(fg, background, blended)  # LOOKS-HOT
            masks.append(fg)
        return torch.stack(masks), background


class RunningBackgroundNaive(RunningBackground):
    def forward(self, frames):
        background = frames[0]
        masks = (frames - background).abs().amax(dim=1, keepdim=True) > self.threshold
        blended = (1 - self.alpha) * background + self.alpha * frames
        return masks, torch.where(masks, background, blended)[-1]


def build():
    torch.manual_seed(0)
    drift = torch.linspace(0, 0.6, 24).view(-1, 1, 1, 1)
    frames = torch.rand(1, 3, 24, 32) * 0.4 + drift + torch.rand(24, 3, 24, 32) * 0.1
    frames[8:, :, 4:12, 6:14] += 0.5
    return RunningBackground(), (frames,)


def build_naive_fix():
    return RunningBackgroundNaive(), build()[1]
