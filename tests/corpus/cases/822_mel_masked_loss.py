"""C822 (after ming024/FastSpeech2 model/loss.py): the frame mask is broadcast over 80 mel bins and fed to masked_select."""
import torch
import torch.nn as nn

expected = {
    "case": "C822",
    "polarity": "positive",
    "kind": "broadcast_masked_select",
    "hot_lines": [27, 28, 29, 31],
    "fix": "index_with_2d_mask",
    "auto_fix_safe": True,
    "why": "the mask is constant along the mel axis, so x[mask].flatten() gives the same elements in the same order (the losses do not even need the flatten)",
    "hot_share_cpu": 0.90,
    "speedup_cpu": 10.36,
}


class AcousticLoss(nn.Module):
    """ mel + postnet mel + duration loss over the non padded positions """

    def __init__(self):
        super(AcousticLoss, self).__init__()
        self.mse_loss = nn.MSELoss()
        self.mae_loss = nn.L1Loss()

    def select_mels(self, mel_targets, mel_predictions, postnet_mel_predictions, mel_masks):
        mel_predictions = mel_predictions.masked_select(mel_masks.unsqueeze(-1))  # HOT
        postnet_mel_predictions = postnet_mel_predictions.masked_select(  # HOT
            mel_masks.unsqueeze(-1)  # HOT
        )
        mel_targets = mel_targets.masked_select(mel_masks.unsqueeze(-1))  # HOT
        return mel_targets, mel_predictions, postnet_mel_predictions

    def forward(self, targets, predictions):
        mel_targets, duration_targets = targets
        mel_pred, postnet_pred, log_duration_pred, src_masks, mel_masks = predictions
        src_masks = ~src_masks
        mel_masks = ~mel_masks
        log_duration_targets = torch.log(duration_targets.float() + 1)

        log_duration_pred = log_duration_pred.masked_select(src_masks)
        log_duration_targets = log_duration_targets.masked_select(src_masks)
        mel_targets, mel_pred, postnet_pred = self.select_mels(mel_targets, mel_pred, postnet_pred, mel_masks)

        mel_loss = self.mae_loss(mel_pred, mel_targets)
        postnet_mel_loss = self.mae_loss(postnet_pred, mel_targets)
        duration_loss = self.mse_loss(log_duration_pred, log_duration_targets)
        return mel_loss + postnet_mel_loss + duration_loss, mel_loss, postnet_mel_loss, duration_loss


class AcousticLossFixed(AcousticLoss):
    def select_mels(self, mel_targets, mel_predictions, postnet_mel_predictions, mel_masks):
        return mel_targets[mel_masks], mel_predictions[mel_masks], postnet_mel_predictions[mel_masks]


def build():
    torch.manual_seed(0)
    src_lens, mel_lens = torch.randint(20, 61, (8,)), torch.randint(120, 301, (8,))
    src_masks = torch.arange(60) >= src_lens[:, None]
    mel_masks = torch.arange(300) >= mel_lens[:, None]
    targets = (torch.randn(8, 300, 80), torch.randint(1, 9, (8, 60)))
    predictions = (torch.randn(8, 300, 80), torch.randn(8, 300, 80), torch.randn(8, 60), src_masks, mel_masks)
    return AcousticLoss(), (targets, predictions)


def build_fixed():
    return AcousticLossFixed(), build()[1]
