"""A forward of so many small operators that the way to them is what it costs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import Fix, Related
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, operators_of, outermost_function, percent, sites_of
from forwardlens.rules.operations import torch_name
from forwardlens.source.rewrite import checked, insert_decorator
from forwardlens.source.tree import Function

# Fewer operators than this take a few milliseconds at most.
LEAST_OPERATORS = 1000
# Where the device's own time is known, fewer tell as much: launching these costs half a millisecond.
LEAST_OPERATORS_ON_DEVICE = 50
# What a graph cannot hold, because the host waits for a value.
_READS = ("aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::is_nonzero")
# Lines that are named as where the operators come from.
MOST_LINES = 3
# A loop of operators is a fault of its own. One that runs so many of them is what to look at, not the whole forward.
LOOP_SHARE, LEAST_ROUNDS = 0.5, 4


class DispatchBound(Rule):
    """## What it does
    Finds forwards that run thousands of operators so small that dispatching them takes longer than computing them,
    and names the lines that run most of them.

    ## Why it costs
    Every operator pays the way through Python and the dispatcher, 2 to 10 microseconds, and a kernel launch on a GPU,
    whatever its size. A GPU idles in between.

    ## When to ignore it
    When the batch is small only while testing: larger tensors make the same operators worth their dispatch. A forward
    whose operators are mostly those of one loop is not reported here: the loop is.

    ## Fix safety
    First remove loops over rows or steps, which other rules find. What is left can be fused by `torch.compile`, and
    replayed as a CUDA graph where nothing reads a value on the host and shapes stay the same: on a GPU that is offered,
    never as safe. Every new shape compiles for seconds, results may differ in the last digits, and an output is
    overwritten by the next call, so a caller that keeps one must clone it. It is tried only when it is asked for.
    """

    name: ClassVar[str] = "dispatch-bound"
    summary: ClassVar[str] = "More time on the way to operators than in them"
    highest = "info"
    threshold_factor: ClassVar[float] = 0.0
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "many-small-operators",
            """\
import torch
from torch import nn


class Step(nn.Module):
    def forward(self, x):
        return (x * 0.9 + 0.1).tanh()


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = nn.ModuleList(Step() for _ in range(400))

    def forward(self, x):  #!
        for step in self.steps:
            x = step(x)
        return x


def build():
    return Steps(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "one-loop-holds-them",
            """\
import torch
from torch import nn


class Steps(nn.Module):
    def forward(self, x):
        for _ in range(400):
            x = x * 0.9
            x = x + 0.1
            x = x.tanh()
        return x


def build():
    return Steps(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "large-operators",
            """\
import torch
from torch import nn


class Product(nn.Module):
    def forward(self, x):
        for _ in range(4):
            x = (x @ x).tanh()
        return x


def build():
    return Product(), (torch.randn(256, 256),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        profile = context.profile
        busy = profile.forward.device_busy_ms
        waiting = profile.forward.bound == "dispatch" or (busy is not None and profile.forward.bound == "mixed")
        if sites is None or not waiting:
            return
        operators = operators_of(profile)
        function = outermost_function(sites)
        if operators < (LEAST_OPERATORS if busy is None else LEAST_OPERATORS_ON_DEVICE) or function is None:
            return
        looped = sum(
            op.calls
            for cost in profile.lines
            for op in cost.ops
            if op.outermost and cost.calls_per_entry >= LEAST_ROUNDS
        )
        if looped > LOOP_SHARE * operators:
            return
        counts = {cost.span: sum(op.calls for op in cost.ops if op.outermost) for cost in profile.lines if cost.ops}
        places = sorted(counts, key=lambda span: -counts[span])[:MOST_LINES]
        median = profile.forward.wall_ms.median
        told = (
            f"the device is busy for {busy:.3g} of {median:.3g} ms" if busy is not None else f"{median:.3g} ms in all"
        )
        fix = _compiled(sites, function) if busy is not None else None
        much = "most of it" if profile.forward.bound == "dispatch" else "much of the rest"
        yield Match(
            context.source.line_span(function.lineno),
            f"The forward runs {operators:,} operators, {1e3 * median / operators:.3g} us each, {told}: {much} is the "
            "way to them, which fewer and larger operators, `torch.compile` or a CUDA graph would save",
            1.0,
            {"operators": operators, "lines": len(counts)},
            tuple(Related(span, f"{counts[span]:,} of them ({percent(counts[span] / operators)})") for span in places),
            (fix,) if fix else (),
            "info",
        )


def _compiled(sites: Sites, function: Function) -> Fix | None:
    """The forward as CUDA graphs, if nothing in the way is known: not compiled yet, and no value read on the host."""
    torch = torch_name(sites.tree.module)
    profile = sites.context.profile
    reads = any(op.name in _READS for cost in profile.lines for op in cost.ops)
    compiled = any("torch.compile" in source.text for source in sites.context.sources.values())
    if torch is None or reads or compiled or function.name != "forward" or isinstance(function, ast.AsyncFunctionDef):
        return None
    decorator = f'@{torch}.compile(mode="reduce-overhead")'
    edits = checked(sites.source, [insert_decorator(sites.tree, function, decorator)])
    reason = "each new shape compiles for seconds, and the next call overwrites an output that is not cloned"
    return Fix("Compile it into CUDA graphs", "unsafe", edits, reason, slow_to_try=True) if edits else None
