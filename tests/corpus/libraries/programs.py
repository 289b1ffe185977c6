"""Which models are profiled, and how."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from forwardlens.runner.request import RunRequest

FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Program:
    """`name` is the function of `models.py`, `library` the package whose lines count as the user's."""

    name: str
    library: str
    backward: bool = False

    def request(self, python: str) -> RunRequest:
        return RunRequest(
            f"models.py:{self.name}",
            FOLDER,
            python=python,
            device="cpu",
            backward=self.backward,
            include=(self.library,),
        )


PROGRAMS = (
    Program("bert", "transformers"),
    Program("bert_training", "transformers", backward=True),
    Program("gpt2", "transformers"),
    Program("gpt2_training", "transformers", backward=True),
    Program("gpt2_generate", "transformers"),
    Program("llama", "transformers"),
    Program("llama_eager", "transformers"),
    Program("llama_training", "transformers", backward=True),
    Program("llama_generate", "transformers"),
    Program("t5", "transformers"),
    Program("t5_training", "transformers", backward=True),
    Program("t5_generate", "transformers"),
    Program("vit", "transformers"),
    Program("whisper", "transformers"),
    Program("whisper_training", "transformers", backward=True),
    Program("mixtral", "transformers"),
    Program("mixtral_training", "transformers", backward=True),
    Program("mamba", "transformers"),
    Program("reformer", "transformers"),
    Program("deformable_detr", "transformers"),
    Program("swin", "transformers"),
    Program("wav2vec2_training", "transformers", backward=True),
    Program("x_decoder", "x_transformers"),
    Program("x_alibi_training", "x_transformers", backward=True),
    Program("x_generate", "x_transformers"),
    Program("gcn", "torch_geometric"),
    Program("gat_training", "torch_geometric", backward=True),
    Program("schnet", "torch_geometric"),
    Program("vit_pytorch_vit", "vit_pytorch"),
    Program("vit_pytorch_crossvit", "vit_pytorch", backward=True),
    Program("vit_pytorch_twins", "vit_pytorch"),
    Program("diffusers_unet", "diffusers"),
    Program("diffusers_sampling", "diffusers"),
    Program("monai_unet", "monai"),
    Program("monai_swin", "monai"),
    Program("conformer", "conformer", backward=True),
    Program("efficientnet", "efficientnet_pytorch"),
    Program("mambapy", "mambapy", backward=True),
    Program("mambapy_sequential", "mambapy"),
    Program("crf_training", "torchcrf", backward=True),
    Program("crf_decode", "torchcrf"),
    Program("neural_ode", "torchdiffeq", backward=True),
    Program("vector_quantizer", "vector_quantize_pytorch", backward=True),
)
