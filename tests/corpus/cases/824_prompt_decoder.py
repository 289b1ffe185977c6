"""C824 (after facebookresearch/segment-anything mask_decoder.py, issue #277): one image is copied for every prompt of the batch."""
import torch
from torch import nn
from torch.nn import functional as F

expected = {
    "case": "C824",
    "polarity": "positive",
    "kind": "repeat_to_expand",
    "hot_lines": [29, 30],
    "fix": "expand",
    "auto_fix_safe": True,
    "why": "both repeated tensors have size 1 in dim 0 and are only read (one addition each), never written in place",
    "hot_share_cpu": 0.09,
    "speedup_cpu": 2.08,
}


class PromptMaskDecoder(nn.Module):
    def __init__(self, transformer_dim: int = 32, num_mask_tokens: int = 4, size: int = 48) -> None:
        super().__init__()
        self.mask_tokens = nn.Embedding(num_mask_tokens, transformer_dim)
        self.q_proj = nn.Linear(transformer_dim, transformer_dim // 4)
        self.k_proj = nn.Linear(transformer_dim, transformer_dim // 4)
        self.register_buffer("image_pe", torch.randn(1, transformer_dim, size, size), persistent=False)

    def expand_per_prompt(self, image_embeddings, n):
        # Expand per-image data in batch direction to be per-mask
        src = torch.repeat_interleave(image_embeddings, n, dim=0)  # HOT
        pos_src = torch.repeat_interleave(self.image_pe, n, dim=0)  # HOT
        return src, pos_src

    def forward(self, image_embedding, sparse_prompt_embeddings, dense_prompt_embeddings):
        output_tokens = self.mask_tokens.weight.unsqueeze(0).expand(sparse_prompt_embeddings.size(0), -1, -1)
        tokens = torch.cat((output_tokens, sparse_prompt_embeddings), dim=1)

        src, pos_src = self.expand_per_prompt(image_embedding.unsqueeze(0), tokens.shape[0])
        src = src + dense_prompt_embeddings
        b, c, h, w = src.shape
        keys = (src + pos_src).flatten(2).permute(0, 2, 1)
        values = src.flatten(2).permute(0, 2, 1)

        hs = tokens + F.scaled_dot_product_attention(self.q_proj(tokens), self.k_proj(keys), values)
        mask_tokens_out = hs[:, : self.mask_tokens.num_embeddings]
        return (mask_tokens_out @ src.flatten(2)).view(b, -1, h, w)


class PromptMaskDecoderFixed(PromptMaskDecoder):
    def expand_per_prompt(self, image_embeddings, n):
        return image_embeddings.expand(n, -1, -1, -1), self.image_pe.expand(n, -1, -1, -1)


def build():
    torch.manual_seed(0)
    inputs = (torch.randn(32, 48, 48), torch.randn(16, 2, 32), torch.randn(32, 1, 1).expand(16, 32, 1, 1))
    return PromptMaskDecoder(), inputs


def build_fixed():
    slow, inputs = build()
    fast = PromptMaskDecoderFixed()
    fast.load_state_dict(slow.state_dict())
    fast.image_pe.copy_(slow.image_pe)
    return fast, inputs
