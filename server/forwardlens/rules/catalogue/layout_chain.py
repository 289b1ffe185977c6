"""Dimensions moved about several times, and a copy at the end that pays for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.operations import VIEWS
from forwardlens.source.dataflow import definition

_MOVES = frozenset({"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "t"})
_COPIES = frozenset({"reshape", "flatten"})
# One move before a copy is what merging heads takes; two can be one.
LEAST_MOVES = 2


class LayoutChain(Rule):
    """## What it does
    Finds tensors whose dimensions are moved several times before a `reshape` that has to copy them.

    ## Why it costs
    `transpose` and `permute` cost nothing by themselves: they change how memory is read. A `reshape` of the result
    cannot be a view any more, so it copies, and reads memory in jumps while it does.

    ## When to ignore it
    When the moves lie in code that several callers share, each of which needs its own order.

    ## Fix safety
    There is no automatic fix: which order is best depends on every reader. Ask for the final order with one `permute`,
    or compute in the order in which the result is needed (`einsum`, `channels_last`).
    """

    name: ClassVar[str] = "layout-chain"
    summary: ClassVar[str] = "Dimensions moved several times, then copied"
    highest = "info"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "two-moves-and-a-copy",
            """\
import torch
from torch import nn


class Windows(nn.Module):
    def forward(self, x):
        b, c, h, w = x.shape
        y = x.permute(0, 2, 3, 1).view(b, h // 4, 4, w, c).transpose(2, 3)
        return y.reshape(b, h * w, c).relu()  #!


def build():
    return Windows(), (torch.randn(4, 16, 32, 32),)
""",
        ),
        Example(
            "one-move",
            """\
import torch
from torch import nn


class Merge(nn.Module):
    def forward(self, x):
        b, heads, n, d = x.shape
        return x.transpose(1, 2).reshape(b, n, heads * d).relu()


def build():
    return Merge(), (torch.randn(4, 8, 64, 16),)
""",
        ),
        Example(
            "no-copy",
            """\
import torch
from torch import nn


class Back(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2).relu().transpose(1, 2).reshape(4, -1).relu()


def build():
    return Back(), (torch.randn(4, 64, 64),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node, cost in sites.items():
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in _COPIES or not cost.op_calls("aten::clone", "aten::copy_"):
                continue
            moves = list(_moves(sites, node.func.value, 0))
            if len(moves) >= LEAST_MOVES:
                names = ", ".join(f"`{name}`" for name in reversed(moves))
                yield Match(
                    sites.source.span(node),
                    f"`{node.func.attr}` copies {cost.alloc_bytes:,} bytes that {names} moved about before, "
                    f"{percent(cost.share)} of the forward: one move to the final order, or none, would do",
                    cost.share,
                    {"moves": len(moves), "bytes": cost.alloc_bytes},
                )


def _moves(sites: Sites, node: ast.expr, depth: int) -> Iterator[str]:
    """The moves that a view went through, last first."""
    if isinstance(node, ast.Name) and depth < 8:
        function = sites.tree.function(node)
        statement = definition(sites.tree, function, node.id) if function is not None else None
        if statement is not None and isinstance(statement.targets[0], ast.Name):
            yield from _moves(sites, statement.value, depth + 1)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name = node.func.attr
        if name in _MOVES:
            yield name
        if name in VIEWS or name == "view":
            yield from _moves(sites, node.func.value, depth)
    elif isinstance(node, ast.Subscript):
        yield from _moves(sites, node.value, depth)
