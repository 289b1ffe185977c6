"""A convolution's bias that the batch normalisation behind it takes away."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost, Related
from forwardlens.rules.constants import attribute_value
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.source.tree import dotted, walk

_CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d")
_LAYERS = frozenset({"Conv1d", "Conv2d", "Conv3d"})


class ConvBiasBeforeBatchnorm(Rule):
    """## What it does
    Finds convolutions with a bias whose only reader is a batch normalisation.

    ## Why it costs
    The normalisation subtracts the mean of each channel, and the bias with it. Adding the bias, holding it and
    computing its gradient are for nothing.

    ## When to ignore it
    With checkpoints that have the bias, until they are converted. Before `GroupNorm` or `LayerNorm` the bias counts,
    and nothing is reported.

    ## Fix safety
    There is no automatic fix: `bias=False` changes the keys of `state_dict`, and in evaluation the running mean of an
    old checkpoint still holds the bias.
    """

    name: ClassVar[str] = "conv-bias-before-batchnorm"
    summary: ClassVar[str] = "A convolution bias that batch normalisation removes"
    highest = "hint"
    threshold_factor: ClassVar[float] = 0.0
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "in-a-sequence",
            """\
import torch
from torch import nn


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 8, 3),  #!
            nn.BatchNorm2d(8),
            nn.ReLU(),
        )

    def forward(self, x):
        return self.net(x)


def build():
    return Stem(), (torch.randn(2, 3, 16, 16),)
""",
        ),
        Example(
            "one-after-the-other",
            """\
import torch
from torch import nn


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)  #!
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.conv(x)).relu()


def build():
    return Stem(), (torch.randn(2, 3, 16, 16),)
""",
        ),
        Example(
            "without-bias",
            """\
import torch
from torch import nn


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, bias=False)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        return self.norm(self.conv(x)).relu()


def build():
    return Stem(), (torch.randn(2, 3, 16, 16),)
""",
        ),
        Example(
            "group-norm",
            """\
import torch
from torch import nn


class Stem(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x):
        return self.norm(self.conv(x)).relu()


def build():
    return Stem(), (torch.randn(2, 3, 16, 16),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        ran = [cost for cost in context.costs if _channels(cost) and cost.op_calls("aten::batch_norm")]
        for node in walk(sites.tree.module):
            if isinstance(node, ast.Call) and _leaf(node) == "Sequential" and ran:
                for layer, after in zip(node.args, node.args[1:], strict=False):
                    if _is_conv(layer) and isinstance(after, ast.Call) and _leaf(after).startswith("BatchNorm"):
                        yield _match(sites, layer, ran[0], None)
            elif isinstance(node, ast.Call) and len(node.args) == 1:
                match = _called(sites, node, node.args[0])
                if match is not None:
                    yield match


def _leaf(call: ast.Call) -> str:
    return (dotted(call.func) or "").split(".")[-1]


def _is_conv(node: ast.expr) -> bool:
    """A convolution that is built with a bias."""
    if not isinstance(node, ast.Call) or _leaf(node) not in _LAYERS:
        return False
    return not any(keyword.arg in {"bias", None} for keyword in node.keywords) and len(node.args) < 8


def _channels(cost: ExpressionCost) -> int:
    """How many channels of bias a convolution added at this expression."""
    found = (op for op in cost.ops if op.name in _CONVOLUTIONS and len(op.shapes) > 2 and op.shapes[2])
    return next((op.shapes[2][0] for op in found), 0)


def _called(sites: Sites, norm: ast.Call, inner: ast.expr) -> Match | None:
    """`self.norm(self.conv(x))`."""
    after, cost = sites.cost(norm), sites.cost(inner)
    if not isinstance(inner, ast.Call) or after is None or cost is None or not after.op_calls("aten::batch_norm"):
        return None
    name = dotted(inner.func) or ""
    layer = attribute_value(sites.tree, inner, name.removeprefix("self.")) if name.count(".") == 1 else None
    if layer is None or not _is_conv(layer) or not _channels(cost):
        return None
    return _match(sites, layer, cost, inner)


def _match(sites: Sites, layer: ast.expr, cost: ExpressionCost, call: ast.expr | None) -> Match:
    channels = _channels(cost)
    return Match(
        sites.source.span(layer),
        f"The convolution, {percent(cost.share)} of the forward with what follows it at its place, adds a bias to each "
        f"of {channels} channels that the batch normalisation behind it subtracts again: `bias=False` leaves it out",
        cost.share,
        {"channels": channels},
        (Related(sites.source.span(call), "where it runs"),) if call is not None else (),
        (),
        "hint",
    )
