"""A convolution's bias that the batch normalisation behind it takes away."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost, Related
from forwardlens.rules.constants import attribute_value
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.source.dataflow import names_bound, read_after
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
            "named-in-a-list-and-in-forward",
            """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, bias=True):
        super().__init__()
        self.first = nn.Sequential(*[nn.Conv2d(3, 8, 3, bias=bias), nn.BatchNorm2d(8), nn.ReLU()])  #!
        self.conv = nn.Conv2d(8, 8, 3)  #!
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x):
        maps = self.conv(self.first(x))
        maps = self.norm(input=maps)
        return maps.relu()


def build():
    return Net(), (torch.randn(2, 3, 16, 16),)
""",
        ),
        Example(
            "perhaps-without-bias",
            """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, bias=False):
        super().__init__()
        self.all = nn.Sequential(nn.Conv2d(3, 8, 3, bias=bias), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 2, 1))

    def forward(self, x):
        return self.all(x)


def build():
    return Net(), (torch.randn(2, 3, 16, 16),)
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
            for layer, after in itertools.pairwise(_layers(node)) if ran else ():
                if isinstance(after, ast.Call) and _leaf(after).startswith("BatchNorm"):
                    seen = next((cost for cost in ran if _is_conv(layer, cost)), None)
                    if seen is not None:
                        yield _match(sites, layer, seen, None)
            match = _called(sites, node) if isinstance(node, ast.Call) else None
            if match is not None:
                yield match


def _leaf(call: ast.Call) -> str:
    return (dotted(call.func) or "").split(".")[-1]


def _layers(node: ast.AST) -> list[ast.expr]:
    """The layers that stand side by side in a list, in a `Sequential` or in the `OrderedDict` that names them."""
    given: list[ast.expr] = []
    if isinstance(node, ast.List):
        given = node.elts
    elif isinstance(node, ast.Call) and _leaf(node) == "Sequential":
        given = node.args
    elif isinstance(node, ast.Dict):
        given = node.values
    return [g.elts[1] if isinstance(g, ast.Tuple) and len(g.elts) == 2 else g for g in given]


def _is_conv(node: ast.expr, cost: ExpressionCost) -> bool:
    """A convolution that is built with a bias, or with one that `cost` shows to be there."""
    if not isinstance(node, ast.Call) or _leaf(node) not in _LAYERS or len(node.args) >= 8:
        return False
    given = next((k.value for k in node.keywords if k.arg in {"bias", None}), None)
    if given is None or (isinstance(given, ast.Constant) and given.value is True):
        return True
    ops = [op for op in cost.ops if op.name in _CONVOLUTIONS]
    complete = all(op.shape_variants == len(op.variants) for op in ops)
    all_biased = complete and all(len(shapes) > 2 and shapes[2] for op in ops for shapes in op.variants)
    return not isinstance(given, ast.Constant) and all_biased


def _channels(cost: ExpressionCost) -> int:
    """How many channels of bias a convolution added at this expression."""
    found = (op for op in cost.ops if op.name in _CONVOLUTIONS and len(op.shapes) > 2 and op.shapes[2])
    return next((op.shapes[2][0] for op in found), 0)


def _called(sites: Sites, norm: ast.Call) -> Match | None:
    """`self.norm(self.conv(x))`, also through a name that nothing else reads."""
    given, after = [*norm.args, *(k.value for k in norm.keywords)], sites.cost(norm)
    if len(given) != 1 or after is None or not after.op_calls("aten::batch_norm"):
        return None
    inner = _behind(sites, given[0])
    cost = sites.cost(inner)
    if not isinstance(inner, ast.Call) or cost is None:
        return None
    name = dotted(inner.func) or ""
    layer = attribute_value(sites.tree, inner, name.removeprefix("self.")) if name.count(".") == 1 else None
    if layer is None or not _is_conv(layer, cost) or not _channels(cost):
        return None
    return _match(sites, layer, cost, inner)


def _behind(sites: Sites, node: ast.expr) -> ast.expr:
    """What a name stands for that is bound right above and read here alone."""
    function, here = sites.tree.function(node), sites.tree.statement(node)
    if not isinstance(node, ast.Name) or function is None:
        return node
    block = sites.tree.block(here)
    above = block[block.index(here) - 1] if block.index(here) else None
    bound = isinstance(above, ast.Assign) and [dotted(t) for t in above.targets] == [node.id]
    again = isinstance(here, ast.Assign) and node.id in names_bound(here)
    alone = again or not read_after(sites.tree, here, node.id)
    reads = sum(isinstance(n, ast.Name) and n.id == node.id and isinstance(n.ctx, ast.Load) for n in walk(here))
    return above.value if isinstance(above, ast.Assign) and bound and alone and reads == 1 else node


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
