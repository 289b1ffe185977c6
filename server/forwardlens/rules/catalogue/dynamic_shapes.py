"""What makes every forward another program: sizes from the data, and counters on the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.rules.constants import constructor
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.source.tree import Function, dotted, walk


class DynamicShapes(Rule):
    """## What it does
    Finds numbers on the module that every forward changes and that take part in tensor arithmetic, such as a counter
    of calls.

    ## Why it costs
    `torch.compile` builds a program for the numbers that it saw. A number that is another one in each forward makes it
    compile again, until it gives up after a few versions and runs without being compiled.

    ## When to ignore it
    When the model is never compiled or exported: then the number costs nothing.

    ## Fix safety
    There is no automatic fix. A number that is kept in a tensor (`register_buffer`) is data to the compiler, and
    `mark_dynamic` says which sizes will change; both change what is saved or how the model is called.
    """

    name: ClassVar[str] = "dynamic-shapes"
    summary: ClassVar[str] = "A number that makes every forward another program"
    highest = "info"
    threshold_factor: ClassVar[float] = 0.0
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "counter-in-arithmetic",
            """\
import torch
from torch import nn


class Warm(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1  #!
        return x * min(self.calls / 100, 1.0)


def build():
    return Warm(), (torch.randn(8, 8),)
""",
        ),
        Example(
            "counter-for-a-log",
            """\
import torch
from torch import nn


class Counted(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * 0.5


def build():
    return Counted(), (torch.randn(8, 8),)
""",
        ),
        Example(
            "counter-in-a-buffer",
            """\
import torch
from torch import nn


class Warm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return x * (self.calls / 100).clamp(max=1.0)


def build():
    return Warm(), (torch.randn(8, 8),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        ran = {cost.function for cost in context.costs}
        for node in walk(sites.tree.module):
            name = _counted(node)
            function = sites.tree.function(node) if name is not None else None
            if name is None or function is None or function.name == "__init__" or not isinstance(node, ast.stmt):
                continue
            if sites.tree.qualname(function) in ran and _starts_as_number(sites, node, name):
                match = _match(sites, node, function, name)
                if match is not None:
                    yield match


def _counted(node: ast.AST) -> str | None:
    """`calls` for `self.calls += 1` and `self.calls = self.calls + 1`."""
    if isinstance(node, ast.AugAssign):
        place = dotted(node.target)
        step = isinstance(node.value, ast.Constant) and isinstance(node.value.value, (int, float))
    elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.BinOp):
        place = dotted(node.targets[0])
        step = place is not None and dotted(node.value.left) == place and isinstance(node.value.right, ast.Constant)
    else:
        return None
    return (
        place.removeprefix("self.") if place and step and place.startswith("self.") and place.count(".") == 1 else None
    )


def _starts_as_number(sites: Sites, node: ast.AST, name: str) -> bool:
    init = constructor(sites.tree, node)
    return init is not None and any(
        isinstance(s, ast.Assign)
        and [dotted(t) for t in s.targets] == [f"self.{name}"]
        and isinstance(s.value, ast.Constant)
        and type(s.value.value) in (int, float)
        for s in walk(init)
    )


def _match(sites: Sites, node: ast.stmt, function: Function, name: str) -> Match | None:
    """The finding, if the number takes part in an expression of the function that ran operators."""
    # In the order of the source: a sum of the same shares in another order is not quite the same.
    readers: dict[ast.AST, None] = {}
    for read in walk(function):
        if not isinstance(read, ast.Attribute) or dotted(read) != f"self.{name}" or not isinstance(read.ctx, ast.Load):
            continue
        if any(read is below for below in walk(node)):
            continue
        reader = next((a for a in sites.tree.ancestors(read) if (c := sites.cost(a)) is not None and c.ops), None)
        if reader is not None and any(reader is below for below in walk(sites.tree.statement(read))):
            readers[reader] = None
    if not readers:
        return None
    share = sum(cost.share for reader in readers if (cost := sites.cost(reader)) is not None)
    return Match(
        sites.source.span(node),
        f"`self.{name}` is another number in every forward and takes part in {len(readers)} "
        f"{'expression' if len(readers) == 1 else 'expressions'} with tensors, {percent(share)} of the forward: "
        "compiled, each value is a program of its own",
        share,
        {"expressions": len(readers)},
        (),
        (),
        "hint",
    )
