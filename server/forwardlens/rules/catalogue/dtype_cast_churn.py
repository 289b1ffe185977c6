"""The same weight or value converted to the same dtype again and again."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost, Related
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of, times
from forwardlens.source.dataflow import bindings
from forwardlens.source.tree import dotted

_CASTS = frozenset({"float", "half", "bfloat16", "double", "to", "type", "type_as"})


class DtypeCastChurn(Rule):
    """## What it does
    Finds conversions that copied although what they convert stays the same: a weight or buffer converted in every
    forward, or one value converted to the same dtype several times.

    ## Why it costs
    Each conversion reads the whole tensor and writes it in another size. For a weight that is as much memory traffic
    as the product it is used in, or more when only one token is processed.

    ## When to ignore it
    When the weight is trained in the narrow dtype and must be computed with in the wide one, as for a stable loss.

    ## Fix safety
    There is no automatic fix. A converted weight that is kept goes stale with the next optimizer step or
    `load_state_dict`, and takes memory. For inference convert the module once (`module.float()`), for training let
    `torch.autocast` keep its own cache.
    """

    name: ClassVar[str] = "dtype-cast-churn"
    summary: ClassVar[str] = "The same conversion to another dtype again and again"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "weight-in-every-forward",
            """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(500, 64, dtype=torch.bfloat16), requires_grad=False)

    def forward(self, x):
        return x @ self.weight.float().t()  #!


def build():
    return Head(), (torch.randn(1, 64),)
""",
        ),
        Example(
            "same-value-twice",
            """\
import torch
from torch import nn


class Two(nn.Module):
    def forward(self, x):
        a = x.to(torch.bfloat16).sum(dim=1)  #!
        b = x.to(torch.bfloat16).amax(dim=1)
        return a + b


def build():
    return Two(), (torch.randn(200, 64),)
""",
        ),
        Example(
            "converted-once",
            """\
import torch
from torch import nn


class Stable(nn.Module):
    def forward(self, x):
        return x.float().softmax(dim=-1).to(x.dtype)


def build():
    return Stable(), (torch.randn(200, 64, dtype=torch.bfloat16),)
""",
        ),
        Example(
            "nothing-to-convert",
            """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(500, 64))

    def forward(self, x):
        return x @ self.weight.float().t()


def build():
    return Wide(), (torch.randn(1, 64),)
""",
        ),
        Example(
            "another-layout-of-the-same-dtype",
            """\
import torch
from torch import nn


class Layout(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16, 32, 32))

    def forward(self, x):
        return x + self.weight.to(memory_format=torch.channels_last)


def build():
    return Layout(), (torch.randn(8, 16, 32, 32),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        groups: dict[tuple[ast.AST | None, str, str], list[tuple[ast.Call, ExpressionCost]]] = defaultdict(list)
        for node, cost in sites.items():
            place = _converted(node, cost)
            if place is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                cast = sites.tree.text(node)[len(sites.tree.text(node.func.value)) :]
                groups[sites.tree.function(node), place, cast].append((node, cost))
        for (function, place, _), found in groups.items():
            if place.startswith("self.") and "." in place:
                yield _weight(sites, place, found)
            elif len(found) > 1 and _never_bound_again(function, place):
                yield _value(sites, place, found)


def _converted(node: ast.AST, cost: ExpressionCost) -> str | None:
    """The name whose value `node` copies into another dtype."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _CASTS:
        return None
    return dotted(node.func.value) if _large(cost) and _conversion(cost) is not None else None


def _conversion(cost: ExpressionCost) -> tuple[str, str] | None:
    """The dtypes from and to which `cost` copied; empty names where the recording has none, None without a change.

    `Tensor.to` copies for another device or layout as well.
    """
    if not cost.op_calls("aten::_to_copy"):
        return None
    copies = [op for op in cost.ops if op.name == "aten::copy_"]
    known = [(op.dtypes[1], op.dtypes[0]) for op in copies if len(op.dtypes) >= 2 and len(op.shapes[0])]
    if not known:
        return ("", "")
    return next(((before, after) for before, after in known if before != after), None)


def _from_to(cost: ExpressionCost) -> str:
    before, after = _conversion(cost) or ("", "")
    return f"from {before} to {after}" if before and after else "to another dtype"


def _large(cost: ExpressionCost) -> bool:
    """Whether the copy is of more than a number."""
    return any(op.name == "aten::_to_copy" and op.shapes and op.shapes[0] for op in cost.ops)


def _never_bound_again(function: ast.AST | None, place: str) -> bool:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return len(bindings(function, place)) == 1


def _weight(sites: Sites, place: str, found: list[tuple[ast.Call, ExpressionCost]]) -> Match:
    node, cost = max(found, key=lambda item: item[1].share)
    share = sum(c.share for _, c in found)
    calls = sum(c.calls for _, c in found)
    return Match(
        sites.source.span(node),
        f"`{place}` is converted {_from_to(cost)} {times(calls)} in every forward, {percent(share)} of it, although it "
        "changes only when it is trained or loaded: for inference convert the module once, for training let "
        "`torch.autocast` keep the copy",
        share,
        {"calls": cost.calls},
    )


def _value(sites: Sites, place: str, found: list[tuple[ast.Call, ExpressionCost]]) -> Match:
    ordered = sorted(found, key=lambda item: (item[0].lineno, item[0].col_offset))
    share = sum(c.share for _, c in ordered)
    calls = sum(c.calls for _, c in ordered)
    others = tuple(Related(sites.source.span(n), "the same conversion") for n, _ in ordered[1:])
    return Match(
        sites.source.span(ordered[0][0]),
        f"`{place}` is converted {_from_to(ordered[0][1])} {times(calls)} in one forward, {percent(share)} of it: "
        "convert it once under a name of its own",
        share,
        {"calls": calls},
        others,
    )
