"""What makes every forward another program: sizes from the data, and counters on the module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.rules.constants import constructor, is_number
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, ran_functions, sites_of
from forwardlens.source.tree import Function, assigned, dotted, walk

# How many names and methods a number is followed through.
_DEPTH = 3


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
            "schedule-in-methods",
            """\
import math

import torch
from torch import nn


class Slots(nn.Module):
    def __init__(self, start=2.0):
        super().__init__()
        self.query = nn.Linear(8, 4)
        self.start, self.heat = start, start
        self.seen = 0

    @property
    def temperature(self):
        return max(0.1, self.start * math.exp(-0.01 * self.seen))

    def tick(self):
        if self.training:
            self.seen += 1  #!
        self.heat = max(0.5, self.heat * 0.99)  #!

    def forward(self, x):
        self.tick()
        heat = self.heat + 1.0
        return self.query(x) / self.temperature * heat


def build():
    return Slots(), (torch.randn(8, 8),)
""",
        ),
        Example(
            "steps-of-training-only",
            """\
import torch
from torch import nn


class Warm(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        if self.training:
            self.calls += 1
        return x * min(self.calls / 100, 1.0)


def build():
    return Warm().eval(), (torch.randn(8, 8),)
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
        for node in walk(sites.tree.module):
            name = _changed(sites, node) if isinstance(node, ast.stmt) else None
            if isinstance(node, ast.stmt) and name is not None and _in_every_forward(sites, node):
                match = _match(sites, node, name) if _starts_as_number(sites, node, name) else None
                if match is not None:
                    yield match


def _in_every_forward(sites: Sites, statement: ast.stmt) -> bool:
    return _always_runs(sites, statement) and _runs(sites, sites.tree.function(statement))


def _runs(sites: Sites, function: Function | None, depth: int = 0) -> bool:
    """Whether a function ran operators, or is a method or property that one of them uses in every forward."""
    if function is None or function in ran_functions(sites.context):
        return function is not None
    owner = sites.tree.owner(function)
    uses = _loads(owner, function.name) if owner is not None and depth < _DEPTH else ()
    return any(_always_runs(sites, use) and _runs(sites, sites.tree.function(use), depth + 1) for use in uses)


def _always_runs(sites: Sites, node: ast.AST) -> bool:
    """Whether no condition stands around `node` in its function, or one only that the mode of this run meets."""
    below = node
    for above in sites.tree.ancestors(node):
        if isinstance(above, ast.FunctionDef):
            return above.name != "__init__"
        if isinstance(above, (ast.IfExp, ast.While)):
            return False
        if isinstance(above, ast.If) and not _is_met(sites, above, below):
            return False
        below = above
    return False


def _is_met(sites: Sites, condition: ast.If, inside: ast.AST) -> bool:
    if inside is condition.test:
        return True
    trains = dotted(condition.test) == "self.training" and sites.context.profile.grad.training
    return trains and any(inside is statement for statement in condition.body)


def _changed(sites: Sites, node: ast.AST) -> str | None:
    """`calls` for `self.calls += 1` and `self.calls = min(self.calls + 1, self.most)`."""
    match node:
        case ast.AugAssign(target=ast.Attribute() as place, value=value) if is_number(sites.tree, value):
            pass
        case ast.Assign(targets=[ast.Attribute() as place], value=value) if any(
            isinstance(n, ast.Attribute) and dotted(n) == dotted(place) for n in walk(value)
        ):
            if not _is_arithmetic(sites, value, dotted(place)):
                return None
        case _:
            return None
    return place.attr if dotted(place) == f"self.{place.attr}" else None


def _is_arithmetic(sites: Sites, value: ast.expr, place: str | None) -> bool:
    """Whether `value` is a number if `place` is one."""
    match value:
        case ast.Attribute() if dotted(value) == place:
            return True
        case ast.BinOp(left=left, right=right):
            return _is_arithmetic(sites, left, place) and _is_arithmetic(sites, right, place)
        case ast.Call(func=func, args=args, keywords=[]) if dotted(func) in {"min", "max"}:
            return all(_is_arithmetic(sites, argument, place) for argument in args)
        case _:
            return is_number(sites.tree, value)


def _starts_as_number(sites: Sites, node: ast.AST, name: str) -> bool:
    init = constructor(sites.tree, node)
    if init is None:
        return False
    bound = (pair for statement in walk(init) if isinstance(statement, ast.stmt) for pair in assigned(statement))
    return any(dotted(target) == f"self.{name}" and _is_plain_number(init, value) for target, value in bound)


def _is_plain_number(init: Function, value: ast.expr) -> bool:
    """A literal, or a parameter whose default is one."""
    if isinstance(value, ast.Name):
        spec = init.args
        defaults = dict(zip(reversed([*spec.posonlyargs, *spec.args]), reversed(spec.defaults), strict=False))
        defaults |= {p: d for p, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
        value = next((default for p, default in defaults.items() if p.arg == value.id), value)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _readers(sites: Sites, read: ast.AST, depth: int = 0) -> Iterator[ast.AST]:
    """The expressions that run operators on what is read, at once, under a name or behind a method of the object."""
    statement = sites.tree.statement(read)
    above = (a for a in sites.tree.ancestors(read) if any(a is below for below in walk(statement)))
    reader = next((a for a in above if (cost := sites.cost(a)) is not None and cost.ops), None)
    if reader is not None:
        yield reader
    elif depth < _DEPTH:
        for later in _becomes(sites, statement):
            yield from _readers(sites, later, depth + 1)


def _becomes(sites: Sites, statement: ast.stmt) -> Iterator[ast.AST]:
    """The places that read what a statement binds or returns."""
    function = sites.tree.function(statement)
    if function is None:
        return
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)]):
            yield from (
                n for n in walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
            )
        case ast.Return():
            owner = sites.tree.owner(function)
            yield from _loads(owner, function.name) if owner is not None else ()
        case _:
            pass


def _loads(owner: ast.ClassDef, name: str) -> Iterator[ast.Attribute]:
    """Where a class reads `self.name`."""
    for node in walk(owner):
        if isinstance(node, ast.Attribute) and dotted(node) == f"self.{name}" and isinstance(node.ctx, ast.Load):
            yield node


def _match(sites: Sites, node: ast.stmt, name: str) -> Match | None:
    """The finding, if the number takes part in an expression that ran operators."""
    function = sites.tree.function(node)
    owner = sites.tree.owner(function) if function is not None else None
    if owner is None:
        return None
    changing = {*walk(node)}
    # In the order of the source: a sum of the same shares in another order is not quite the same.
    readers = {reader: None for read in _loads(owner, name) if read not in changing for reader in _readers(sites, read)}
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
