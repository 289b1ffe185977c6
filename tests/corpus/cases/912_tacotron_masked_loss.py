"""C912 (after espnet tts/tacotron2.py, Tacotron2Loss): the frame mask is broadcast over the mel bins by masked_select."""
import torch
import torch.nn.functional as F
from torch import nn

expected = {
    "case": "C912",
    "polarity": "positive",
    "kind": "broadcast_masked_select",
    "hot_lines": [36, 37, 38],
    "fix": "index_with_row_mask",
    "auto_fix_safe": True,
    "why": "the mask is constant along the mel axis: indexing the rows picks the same elements in the same order, and only means are taken",
    "hot_share_cpu": 0.86,
    "speedup_cpu": 12.15,
}


def make_non_pad_mask(lengths, maxlen):
    seq_range = torch.arange(maxlen, device=lengths.device)
    return seq_range.unsqueeze(0) < lengths.unsqueeze(-1)


class Tacotron2Loss(nn.Module):
    """L1 + MSE over the valid frames, BCE on the stop token."""

    def __init__(self, use_masking=True, bce_pos_weight=20.0):
        super().__init__()
        self.use_masking = use_masking
        self.register_buffer("pos_weight", torch.tensor(bce_pos_weight))

    def forward(self, after_outs, before_outs, logits, ys, labels, olens):
        # make mask and apply it
        if self.use_masking:
            masks = make_non_pad_mask(olens, ys.size(1)).unsqueeze(-1)
            ys = ys.masked_select(masks)  # HOT
            after_outs = after_outs.masked_select(masks)  # HOT
            before_outs = before_outs.masked_select(masks)  # HOT
            labels = labels.masked_select(masks[:, :, 0])
            logits = logits.masked_select(masks[:, :, 0])

        l1_loss = F.l1_loss(after_outs, ys) + F.l1_loss(before_outs, ys)
        mse_loss = F.mse_loss(after_outs, ys) + F.mse_loss(before_outs, ys)
        bce_loss = F.binary_cross_entropy_with_logits(logits, labels, pos_weight=self.pos_weight)
        return l1_loss, mse_loss, bce_loss


class Tacotron2LossFixed(Tacotron2Loss):
    def forward(self, after_outs, before_outs, logits, ys, labels, olens):
        keep = make_non_pad_mask(olens, ys.size(1))
        ys, after_outs, before_outs = ys[keep], after_outs[keep], before_outs[keep]
        labels, logits = labels[keep], logits[keep]
        l1_loss = F.l1_loss(after_outs, ys) + F.l1_loss(before_outs, ys)
        mse_loss = F.mse_loss(after_outs, ys) + F.mse_loss(before_outs, ys)
        return l1_loss, mse_loss, F.binary_cross_entropy_with_logits(logits, labels, pos_weight=self.pos_weight)


def build():
    torch.manual_seed(0)
    mels = [torch.randn(12, 200, 80) for _ in range(3)]
    stops = torch.randn(12, 200), (torch.rand(12, 200) < 0.1).float()
    return Tacotron2Loss(), (mels[0], mels[1], stops[0], mels[2], stops[1], torch.randint(90, 201, (12,)))


def build_fixed():
    return Tacotron2LossFixed(), build()[1]
