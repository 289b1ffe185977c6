"""Entry points into public libraries: each function builds a model from configuration, with random weights.

Layers, heads and widths are small; what a forward runs is what it runs at full size.
"""

import importlib
import sys
from importlib.machinery import PathFinder
from types import ModuleType

import torch
from torch import nn

VOCABULARY = 1000


def ids(*size):
    return torch.randint(3, VOCABULARY, size)


def padded(rows, length):
    """An attention mask whose rows end at different places."""
    ends = torch.linspace(length // 2, length, rows).long()
    return (torch.arange(length) < ends[:, None]).long()


class Loss(nn.Module):
    """What a training script runs: a model's loss."""

    def __init__(self, model):
        super().__init__()
        self.model = model.train()

    def forward(self, **inputs):
        return self.model(**inputs).loss


class Generate(nn.Module):
    """What a serving script runs: greedy decoding with a key-value cache."""

    def __init__(self, model, tokens):
        super().__init__()
        self.model, self.tokens = model.eval(), tokens

    def forward(self, inputs):
        return self.model.generate(
            inputs, max_new_tokens=self.tokens, min_new_tokens=self.tokens, do_sample=False, pad_token_id=0
        )


# -- transformers


def bert_config():
    from transformers import BertConfig

    return BertConfig(
        num_hidden_layers=2,
        hidden_size=256,
        num_attention_heads=4,
        intermediate_size=1024,
        vocab_size=VOCABULARY,
        hidden_dropout_prob=0.1,
    )


def bert():
    from transformers import BertModel

    return BertModel(bert_config()).eval(), (), {"input_ids": ids(2, 64), "attention_mask": padded(2, 64)}


def bert_training():
    from transformers import BertForMaskedLM

    tokens = ids(2, 64)
    inputs = {"input_ids": tokens, "attention_mask": padded(2, 64), "labels": tokens}
    return Loss(BertForMaskedLM(bert_config())), (), inputs


def gpt2_model():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = GPT2Config(n_layer=2, n_embd=256, n_head=4, vocab_size=VOCABULARY, n_positions=256)
    return GPT2LMHeadModel(sizes)


def gpt2():
    return gpt2_model().eval(), (), {"input_ids": ids(2, 64)}


def gpt2_training():
    tokens = ids(2, 64)
    return Loss(gpt2_model()), (), {"input_ids": tokens, "labels": tokens}


def gpt2_generate():
    return Generate(gpt2_model(), 12), (ids(2, 16),)


def llama_model():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = LlamaConfig(
        num_hidden_layers=2,
        hidden_size=256,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=688,
        vocab_size=VOCABULARY,
    )
    return LlamaForCausalLM(sizes)


def llama():
    return llama_model().eval(), (), {"input_ids": ids(2, 64), "attention_mask": padded(2, 64)}


def llama_eager():
    model = llama_model().eval()
    model.set_attn_implementation("eager")
    return model, (), {"input_ids": ids(2, 64), "attention_mask": padded(2, 64)}


def llama_training():
    tokens = ids(2, 64)
    return Loss(llama_model()), (), {"input_ids": tokens, "labels": tokens}


def llama_generate():
    return Generate(llama_model(), 12), (ids(2, 16),)


def t5_model():
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = T5Config(
        num_layers=2,
        num_decoder_layers=2,
        d_model=256,
        d_kv=64,
        num_heads=4,
        d_ff=512,
        vocab_size=VOCABULARY,
        decoder_start_token_id=0,
    )
    return T5ForConditionalGeneration(sizes)


def t5():
    inputs = {"input_ids": ids(2, 64), "attention_mask": padded(2, 64), "decoder_input_ids": ids(2, 32)}
    return t5_model().eval(), (), inputs


def t5_training():
    return Loss(t5_model()), (), {"input_ids": ids(2, 64), "attention_mask": padded(2, 64), "labels": ids(2, 32)}


def t5_generate():
    return Generate(t5_model(), 10), (ids(2, 32),)


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    sizes = ViTConfig(
        num_hidden_layers=2, hidden_size=256, num_attention_heads=4, intermediate_size=1024, image_size=112
    )
    return ViTForImageClassification(sizes).eval(), (), {"pixel_values": torch.randn(2, 3, 112, 112)}


def whisper_model():
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    sizes = WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=256,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=512,
        decoder_ffn_dim=512,
        max_source_positions=100,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return WhisperForConditionalGeneration(sizes)


def whisper():
    inputs = {"input_features": torch.randn(2, 80, 200), "decoder_input_ids": ids(2, 32)}
    return whisper_model().eval(), (), inputs


def whisper_training():
    inputs = {"input_features": torch.randn(2, 80, 200), "labels": ids(2, 32)}
    return Loss(whisper_model()), (), inputs


def mixtral_model():
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = MixtralConfig(
        num_hidden_layers=2,
        hidden_size=256,
        num_attention_heads=8,
        num_key_value_heads=2,
        intermediate_size=512,
        num_local_experts=8,
        vocab_size=VOCABULARY,
        output_router_logits=True,
    )
    return MixtralForCausalLM(sizes)


def mixtral():
    return mixtral_model().eval(), (), {"input_ids": ids(2, 64), "attention_mask": padded(2, 64)}


def mixtral_training():
    tokens = ids(2, 64)
    return Loss(mixtral_model()), (), {"input_ids": tokens, "labels": tokens}


def mamba():
    from transformers import MambaConfig, MambaForCausalLM

    model = MambaForCausalLM(MambaConfig(hidden_size=128, num_hidden_layers=2, vocab_size=VOCABULARY))
    return model.eval(), (), {"input_ids": ids(2, 48)}


def reformer():
    from transformers import ReformerConfig, ReformerModelWithLMHead

    sizes = ReformerConfig(
        vocab_size=VOCABULARY,
        hidden_size=128,
        attention_head_size=32,
        num_attention_heads=4,
        feed_forward_size=256,
        attn_layers=["local", "lsh"],
        axial_pos_shape=(8, 8),
        axial_pos_embds_dim=(32, 96),
        num_buckets=8,
        is_decoder=True,
    )
    return ReformerModelWithLMHead(sizes).eval(), (), {"input_ids": ids(2, 64)}


def deformable_detr():
    from transformers import DeformableDetrConfig, DeformableDetrModel, ResNetConfig

    backbone = ResNetConfig(
        embedding_size=16,
        hidden_sizes=[32, 48, 64, 96],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    sizes = DeformableDetrConfig(
        backbone_config=backbone,
        use_timm_backbone=False,
        use_pretrained_backbone=False,
        backbone=None,
        d_model=128,
        encoder_layers=2,
        decoder_layers=2,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        num_queries=50,
        num_feature_levels=3,
    )
    return DeformableDetrModel(sizes).eval(), (), {"pixel_values": torch.randn(1, 3, 160, 160)}


def swin():
    from transformers import SwinConfig, SwinModel

    sizes = SwinConfig(image_size=112, embed_dim=48, depths=[2, 2], num_heads=[2, 4], window_size=7)
    return SwinModel(sizes).eval(), (), {"pixel_values": torch.randn(2, 3, 112, 112)}


def wav2vec2_training():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

    sizes = Wav2Vec2Config(
        vocab_size=32,
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=256,
        conv_dim=(64, 64, 64),
        conv_stride=(5, 4, 4),
        conv_kernel=(10, 8, 4),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    inputs = {"input_values": torch.randn(2, 16000), "labels": torch.randint(1, 32, (2, 20))}
    return Loss(Wav2Vec2ForCTC(sizes)), (), inputs


# -- x-transformers


def x_decoder():
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(dim=256, depth=2, heads=4, rotary_pos_emb=True)
    return TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=256, attn_layers=layers).eval(), (ids(2, 64),)


def x_alibi_training():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=256, depth=2, heads=4, alibi_pos_bias=True, attn_flash=False)
    model = TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=256, attn_layers=layers)
    return AutoregressiveWrapper(model).train(), (ids(2, 64),)


def x_generate():
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=256, depth=2, heads=4)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=VOCABULARY, max_seq_len=256, attn_layers=layers)).eval()

    def generate():
        return model.generate(prompt, 12, temperature=0.0, cache_kv=True)

    prompt = ids(2, 8)
    return generate


# -- torch_geometric


def edges(nodes, number):
    return torch.randint(0, nodes, (2, number))


class Graph(nn.Module):
    """Two graph layers as the library's examples use them."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first, second

    def forward(self, x, links):
        return self.second(self.first(x, links).relu(), links)


def gcn():
    from torch_geometric.nn import GCNConv

    return Graph(GCNConv(128, 64), GCNConv(64, 16)).eval(), (torch.randn(1000, 128), edges(1000, 5000))


def gat_training():
    from torch_geometric.nn import GATConv

    model = Graph(GATConv(128, 16, heads=4, dropout=0.2), GATConv(64, 16))
    return model.train(), (torch.randn(1000, 128), edges(1000, 5000))


def schnet():
    from torch_geometric.nn import SchNet
    from torch_geometric.nn.models.schnet import RadiusInteractionGraph

    class Near(RadiusInteractionGraph):
        """Neighbours from distances: the original calls a compiled extension."""

        def forward(self, pos, batch):
            distance = torch.cdist(pos, pos)
            same = batch[:, None] == batch[None]
            near = same & (distance < self.cutoff) & ~torch.eye(len(pos), dtype=torch.bool)
            links = near.nonzero().t()
            return links, distance[links[0], links[1]]

    model = SchNet(hidden_channels=64, num_filters=64, num_interactions=3, interaction_graph=Near(5.0, 32))
    return model.eval(), (torch.randint(1, 20, (64,)), 4 * torch.randn(64, 3), torch.arange(4).repeat_interleave(16))


# -- vit-pytorch


def vit_pytorch(name):
    """One module of vit-pytorch. The package itself imports torchvision, which the models do not need."""
    if "vit_pytorch" not in sys.modules:
        spec = PathFinder.find_spec("vit_pytorch")
        if spec is None:
            raise ModuleNotFoundError("No module named 'vit_pytorch'", name="vit_pytorch")
        package = ModuleType("vit_pytorch")
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["vit_pytorch"] = package
    return importlib.import_module(f"vit_pytorch.{name}")


def vit_pytorch_vit():
    model = vit_pytorch("vit").ViT(
        image_size=112, patch_size=16, num_classes=10, dim=256, depth=2, heads=4, mlp_dim=512
    )
    return model.eval(), (torch.randn(2, 3, 112, 112),)


def vit_pytorch_crossvit():
    model = vit_pytorch("cross_vit").CrossViT(
        image_size=192, num_classes=10, depth=1, sm_dim=96, sm_enc_depth=1, lg_dim=128, lg_enc_depth=1
    )
    return model.train(), (torch.randn(1, 3, 192, 192),)


def vit_pytorch_twins():
    model = vit_pytorch("twins_svt").TwinsSVT(
        num_classes=10, s1_emb_dim=32, s2_emb_dim=64, s3_emb_dim=96, s4_emb_dim=128, s3_depth=2, s4_depth=1
    )
    return model.eval(), (torch.randn(1, 3, 224, 224),)


# -- diffusers


def diffusers_unet():
    from diffusers import UNet2DModel

    model = UNet2DModel(
        sample_size=32,
        layers_per_block=1,
        block_out_channels=(32, 64, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
        norm_num_groups=8,
    )
    return model.eval(), (torch.randn(2, 3, 32, 32), torch.tensor([10, 20]))


def diffusers_sampling():
    """The loop that denoises, as the library's guide writes it."""
    from diffusers import DDPMScheduler

    model, (noise, _) = diffusers_unet()
    scheduler = DDPMScheduler(num_train_timesteps=1000)
    scheduler.set_timesteps(5)

    def sample():
        image = noise
        with torch.no_grad():
            for step in scheduler.timesteps:
                residual = model(image, step).sample
                image = scheduler.step(residual, step, image).prev_sample
        return image

    return sample


# -- others


def monai_unet():
    from monai.networks.nets import UNet

    model = UNet(spatial_dims=2, in_channels=1, out_channels=2, channels=(16, 32, 64), strides=(2, 2), num_res_units=2)
    return model.eval(), (torch.randn(2, 1, 96, 96),)


def monai_swin():
    from monai.networks.nets import SwinUNETR

    model = SwinUNETR(in_channels=1, out_channels=2, feature_size=12, spatial_dims=2, num_heads=(2, 2, 4, 4))
    return model.eval(), (torch.randn(1, 1, 96, 96),)


def conformer():
    from conformer import Conformer

    model = Conformer(dim=128, depth=2, dim_head=32, heads=4, conv_kernel_size=15)
    return model.train(), (torch.randn(2, 100, 128),)


def efficientnet():
    from efficientnet_pytorch import EfficientNet

    return EfficientNet.from_name("efficientnet-b0", num_classes=10).eval(), (torch.randn(1, 3, 128, 128),)


def mambapy():
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=128, n_layers=2)).train(), (torch.randn(2, 64, 128),)


def mambapy_sequential():
    from mambapy.mamba import Mamba, MambaConfig

    return Mamba(MambaConfig(d_model=128, n_layers=2, pscan=False)).eval(), (torch.randn(2, 64, 128),)


class Tagger(nn.Module):
    """Emissions and a conditional random field, as its documentation uses it."""

    def __init__(self, tags):
        super().__init__()
        from torchcrf import CRF

        self.word, self.emit, self.crf = nn.Embedding(VOCABULARY, 64), nn.Linear(64, tags), CRF(tags, batch_first=True)

    def forward(self, tokens, labels=None):
        scores = self.emit(self.word(tokens))
        return self.crf.decode(scores) if labels is None else -self.crf(scores, labels)


def crf_training():
    return Tagger(9).train(), (ids(8, 40), torch.randint(0, 9, (8, 40)))


def crf_decode():
    return Tagger(9).eval(), (ids(8, 40),)


def neural_ode():
    from torchdiffeq import odeint

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 16))

        def forward(self, t, y):
            return self.net(y)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.field = Field()

        def forward(self, y):
            return odeint(self.field, y, torch.linspace(0, 1, 5))[-1]

    return Flow().train(), (torch.randn(32, 16),)


def vector_quantizer():
    from vector_quantize_pytorch import ResidualVQ

    model = ResidualVQ(dim=64, num_quantizers=6, codebook_size=128)
    return model.train(), (torch.randn(2, 128, 64),)
