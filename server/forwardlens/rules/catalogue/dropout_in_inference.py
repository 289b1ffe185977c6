"""Dropout that drops, in a forward that nothing learns from."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.source.tree import dotted, walk

_RANDOM = ("aten::native_dropout", "aten::bernoulli_", "aten::feature_dropout", "aten::alpha_dropout")
_GUARDS = frozenset({"no_grad", "inference_mode"})


class DropoutInInference(Rule):
    """## What it does
    Finds dropout that ran in training mode under `no_grad` or `inference_mode`, where nothing can be learned from it.

    ## Why it costs
    Random numbers are drawn and multiplied for every element, and fused paths such as that of
    `nn.TransformerEncoder` are left. More than time it costs results: each call gives another answer, and
    batch normalisation updates its statistics with test data.

    ## When to ignore it
    When several random forwards are averaged on purpose (Monte Carlo dropout). A file that asks for `training=True`
    or calls `.train()` is not reported.

    ## Fix safety
    There is no automatic fix: `model.eval()` changes the results, which is its point.
    """

    name: ClassVar[str] = "dropout-in-inference"
    summary: ClassVar[str] = "Dropout at work although no gradients are kept"
    threshold_factor: ClassVar[float] = 0.0
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "no-eval",
            """\
import torch
from torch import nn


class Service(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)
        self.drop = nn.Dropout(0.1)

    @torch.no_grad()
    def forward(self, x):
        return self.drop(self.lin(x))  #!


def build():
    return Service(), (torch.randn(8, 32),)
""",
        ),
        Example(
            "evaluated",
            """\
import torch
from torch import nn


class Service(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)
        self.drop = nn.Dropout(0.1)

    @torch.no_grad()
    def forward(self, x):
        return self.drop(self.lin(x))


def build():
    return Service().eval(), (torch.randn(8, 32),)
""",
        ),
        Example(
            "trained",
            """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        return self.drop(self.lin(x))


def build():
    return Layer(), (torch.randn(8, 32),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        grad = context.profile.grad
        if sites is None or grad.backward_ran or not grad.training or _is_deliberate(sites.tree.module):
            return
        dropping = [(n, c) for n, c in sites.items() if isinstance(n, ast.Call) and c.op_calls(*_RANDOM) and _drops(c)]
        guarded = [(n, c) for n, c in dropping if not grad.grad_enabled or grad.inference_mode or _guarded(sites, n)]
        if guarded:
            yield _match(sites, guarded)


def _drops(cost: ExpressionCost) -> bool:
    return any("dropout" in op.name for op in cost.ops)


def _is_deliberate(module: ast.Module) -> bool:
    for node in walk(module):
        if isinstance(node, ast.keyword) and node.arg == "training":
            if isinstance(node.value, ast.Constant) and node.value.value is True:
                return True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "train":
            return True
    return False


def _guarded(sites: Sites, node: ast.AST) -> bool:
    """Whether autograd is switched off around `node` in its function."""
    function = sites.tree.function(node)
    around: list[ast.expr] = list(function.decorator_list) if function is not None else []
    for above in sites.tree.ancestors(node):
        if isinstance(above, ast.With):
            around += [item.context_expr for item in above.items]
    called = [e.func if isinstance(e, ast.Call) else e for e in around]
    return any((dotted(e) or "").split(".")[-1] in _GUARDS for e in called)


def _match(sites: Sites, found: list[tuple[ast.Call, ExpressionCost]]) -> Match:
    node, _ = max(found, key=lambda item: item[1].share)
    share = sum(cost.share for _, cost in found)
    calls = sum(cost.calls for _, cost in found)
    return Match(
        sites.source.span(node),
        f"Dropout drew random numbers in {calls} calls, {percent(share)} of a forward that keeps no gradients: "
        "without `model.eval()` every call gives another result",
        share,
        {"calls": calls},
        (),
        (),
        "warning",
    )
