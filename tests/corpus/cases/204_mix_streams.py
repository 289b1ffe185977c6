"""C204 (after tensorly#33 and vllm#22105): two full streams merged by two complementary masked row copies."""
import torch
from torch import nn

expected = {
    "case": "C204",
    "polarity": "positive",
    "kind": "bool_mask_assign",
    "hot_lines": [21, 22],
    "fix": "torch.where",
    "auto_fix_safe": True,
    "why": "the buffer is fresh, the two masks are each other's complement and each side is indexed by its own mask; the mask needs one more axis",
    "hot_share_cpu": 0.48,
    "speedup_cpu": 1.46,
}


def interleave(is_text, streams):
    text, audio = streams["text"], streams["audio"]
    fused = torch.empty_like(text)
    fused[is_text] = text[is_text]  # HOT
    fused[~is_text] = audio[~is_text]  # HOT
    return fused


class SpeechTextMixer(nn.Module):
    def __init__(self, vocab=200, mel=20, width=64):
        super().__init__()
        self.stems = nn.ModuleDict({"text": nn.Embedding(vocab, width), "audio": nn.Linear(mel, width)})
        self.norm = nn.LayerNorm(width)

    def merge(self, is_text, streams):
        return interleave(is_text, streams)

    def forward(self, tokens, mels, is_text):
        raw = {"text": tokens, "audio": mels}
        streams = {name: stem(raw[name]) for name, stem in self.stems.items()}
        return self.norm(self.merge(is_text, streams)).mean(dim=1)


class SpeechTextMixerFixed(SpeechTextMixer):
    def merge(self, is_text, streams):
        return torch.where(is_text.unsqueeze(-1), streams["text"], streams["audio"])


def build():
    torch.manual_seed(0)
    shape = (16, 128)
    return SpeechTextMixer(), (torch.randint(0, 200, shape), torch.randn(*shape, 20), torch.rand(shape) < 0.5)


def build_fixed():
    slow, inputs = build()
    fast = SpeechTextMixerFixed()
    fast.load_state_dict(slow.state_dict())
    return fast, inputs
