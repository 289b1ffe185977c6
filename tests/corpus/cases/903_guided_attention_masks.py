"""C903 (after espnet/espnet GuidedAttentionLoss in e2e_tts_tacotron2.py): the soft diagonal mask is built utterance by utterance."""
import torch
from torch import nn

expected = {
    "case": "C903",
    "polarity": "positive",
    "kind": "mask_loop",
    "hot_lines": [33, 38, 39, 40],
    "fix": "broadcast_lengths_and_mask",
    "auto_fix_safe": True,
    "why": "each slice only depends on its own two lengths: arange / length broadcasts over the batch, the rest is masked to 0",
    "hot_share_cpu": 0.85,
    "speedup_cpu": 8.23,
}


class GuidedAttentionLoss(nn.Module):
    def __init__(self, sigma=0.4, alpha=1.0):
        super().__init__()
        self.sigma = sigma
        self.alpha = alpha

    def forward(self, att_ws, ilens, olens):
        guided_attn_masks = self._make_guided_attention_masks(ilens, olens).to(att_ws.device)
        losses = guided_attn_masks * att_ws
        return self.alpha * losses.sum() / (ilens * olens).sum()

    def _make_guided_attention_masks(self, ilens, olens):
        n_batches = len(ilens)
        guided_attn_masks = torch.zeros((n_batches, int(max(olens)), int(max(ilens))))
        for idx, (ilen, olen) in enumerate(zip(ilens.tolist(), olens.tolist())):
            guided_attn_masks[idx, :olen, :ilen] = self._make_guided_attention_mask(ilen, olen, self.sigma)  # HOT
        return guided_attn_masks

    @staticmethod
    def _make_guided_attention_mask(ilen, olen, sigma):
        grid_x, grid_y = torch.meshgrid(torch.arange(olen), torch.arange(ilen), indexing="ij")  # HOT
        grid_x, grid_y = grid_x.float(), grid_y.float()  # HOT
        return 1.0 - torch.exp(-((grid_y / ilen - grid_x / olen) ** 2) / (2 * (sigma**2)))  # HOT


class GuidedAttentionLossFixed(GuidedAttentionLoss):
    def _make_guided_attention_masks(self, ilens, olens):
        x, y = torch.arange(int(olens.max())), torch.arange(int(ilens.max()))
        inside = (x < olens[:, None])[:, :, None] & (y < ilens[:, None])[:, None, :]
        diff = (y / ilens[:, None])[:, None, :] - (x / olens[:, None])[:, :, None]
        return (1.0 - torch.exp(-(diff**2) / (2 * self.sigma**2))) * inside


def build():
    torch.manual_seed(0)
    ilens, olens = torch.randint(10, 25, (32,)), torch.randint(20, 49, (32,))
    ilens[0], olens[0] = 24, 48
    return GuidedAttentionLoss(), (torch.rand(32, 48, 24).softmax(-1), ilens, olens)


def build_fixed():
    return GuidedAttentionLossFixed(), build()[1]
