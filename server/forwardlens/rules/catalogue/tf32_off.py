"""Float32 products on a GPU whose tensor cores stand idle."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from forwardlens.model import Environment, ExpressionCost, Profile, Related
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import percent

_Kind = Literal["products", "convolutions"]
# What launches the kernels; `aten::matmul` and `aten::linear` call these.
_OPERATORS: dict[_Kind, frozenset[str]] = {
    "products": frozenset({"aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::addmv", "aten::mv"}),
    "convolutions": frozenset({"aten::cudnn_convolution", "aten::cudnn_convolution_relu"}),
}
_SETTINGS: dict[_Kind, str] = {
    "products": '`torch.set_float32_matmul_precision("high")`',
    "convolutions": "`torch.backends.cudnn.allow_tf32 = True`",
}
# A program that names one of these has made its choice.
_CHOICES = ("set_float32_matmul_precision", "allow_tf32", "fp32_precision")
# Below half of the device's work, other operators bound the forward, and products in another format change little.
LEAST_OF_DEVICE = 0.5
MOST_LINES = 3


class Tf32Off(Rule):
    """## What it does
    Finds forwards that spend most of the device's time in float32 matrix products or convolutions, on a GPU whose
    tensor cores could run them in TF32, which the program does not allow.

    ## Why it costs
    In full float32 the products run on the ordinary cores. In TF32 they run on tensor cores, many times faster in the
    product itself; memory traffic and everything around it stay what they are. PyTorch leaves TF32 off for products
    and on for convolutions.

    ## When to ignore it
    When the results need the digits: TF32 rounds the factors to 10 bits of mantissa in place of 23, a relative
    rounding error of up to about 5e-4 per factor in place of 6e-8, and adds up in float32. Training and inference of
    most networks bear that; solvers, covariances, and differences of large numbers do not. A program that sets the
    precision itself, in a file that the run went through, is not reported.

    ## Fix safety
    There is no automatic fix: the setting holds for the whole process and changes the results. Set
    `torch.set_float32_matmul_precision("high")` once at the start and compare what you measure your model by. Where
    even fewer digits do, `torch.autocast` with bfloat16 saves memory traffic as well.
    """

    name: ClassVar[str] = "tf32-off"
    summary: ClassVar[str] = "Float32 products that leave the tensor cores idle"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "large-products",
            """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(2048, 8192)

    def forward(self, x):
        return self.up(x)  #!


def build():
    return Wide(), (torch.randn(4096, 2048),)
""",
            device="cuda",
        ),
        Example(
            "half-precision",
            """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(2048, 8192, dtype=torch.bfloat16)

    def forward(self, x):
        return self.up(x)


def build():
    return Wide(), (torch.randn(4096, 2048, dtype=torch.bfloat16),)
""",
            device="cuda",
        ),
        Example(
            "no-tensor-cores",
            """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(256, 1024)

    def forward(self, x):
        return self.up(x)


def build():
    return Wide(), (torch.randn(64, 256),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        profile = context.profile
        busy = profile.forward.device_busy_ms
        if not busy or any(choice in source.text for source in context.sources.values() for choice in _CHOICES):
            return
        for kind in _switched_off(profile.environment):
            spent = _device_times(profile, kind)
            whole = sum(spent.values())
            if whole < LEAST_OF_DEVICE * busy:
                continue
            places = sorted(spent, key=lambda cost: -spent[cost])
            if places[0].span.file == context.source.path:
                yield _match(profile, kind, places[:MOST_LINES], spent, whole, busy)


def _switched_off(environment: Environment) -> Iterator[_Kind]:
    if environment.matmul_tf32 is False:
        yield "products"
    if environment.conv_tf32 is False:
        yield "convolutions"


def _device_times(profile: Profile, kind: _Kind) -> dict[ExpressionCost, float]:
    """Milliseconds of the device in float32 operators of this kind, by expression."""
    spent: dict[ExpressionCost, float] = {}
    for cost in profile.lines:
        time = sum(op.device_ms for op in cost.ops if op.name in _OPERATORS[kind] and "float32" in op.dtypes)
        if time > 0:
            spent[cost] = time
    return spent


def _match(
    profile: Profile,
    kind: _Kind,
    places: list[ExpressionCost],
    spent: dict[ExpressionCost, float],
    whole: float,
    busy: float,
) -> Match:
    environment = profile.environment
    related = tuple(Related(cost.span, f"{percent(spent[cost] / busy)} of the device's time") for cost in places[1:])
    return Match(
        places[0].span,
        f"Float32 {kind} take {whole:.3g} ms, {percent(whole / busy)} of the device's time, without TF32, which "
        f"this GPU has (compute capability {environment.compute_capability}): {_SETTINGS[kind]} allows it, at about "
        "three digits of precision in each factor in place of seven",
        min(1.0, whole / profile.forward.wall_ms.median),
        {"device_ms": round(whole, 3), "share_of_device": round(whole / busy, 3)},
        related,
    )
