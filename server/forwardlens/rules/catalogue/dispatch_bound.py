"""A forward of so many small operators that the way to them is what it costs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import Related
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.source.tree import Function

# Fewer operators than this take a few milliseconds at most.
LEAST_OPERATORS = 1000
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
    There is no automatic fix. First remove loops over rows or steps, which other rules find. What is left can be fused
    by `torch.compile`, or replayed as a CUDA graph where nothing reads a value on the host and shapes stay the same.
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
        if sites is None or profile.forward.bound != "dispatch":
            return
        operators = sum(op.calls for cost in profile.lines for op in cost.ops if op.outermost)
        function = _outermost(sites)
        if operators < LEAST_OPERATORS or function is None:
            return
        looped = sum(
            op.calls
            for cost in profile.lines
            for op in cost.ops
            if op.outermost and cost.calls_per_entry >= LEAST_ROUNDS
        )
        if looped > LOOP_SHARE * operators:
            return
        counts = {cost.span: sum(op.calls for op in cost.ops if op.outermost) for cost in context.costs}
        places = sorted(counts, key=lambda span: -counts[span])[:MOST_LINES]
        median = profile.forward.wall_ms.median
        busy = profile.forward.device_busy_ms
        told = (
            f"the device is busy for {busy:.3g} of {median:.3g} ms" if busy is not None else f"{median:.3g} ms in all"
        )
        yield Match(
            context.source.line_span(function.lineno),
            f"The forward runs {operators:,} operators, {1e3 * median / operators:.2g} us each, {told}: most of it is "
            "the way to them, which fewer and larger operators, `torch.compile` or a CUDA graph would save",
            1.0,
            {"operators": operators, "lines": len(counts)},
            tuple(Related(span, f"{counts[span]:,} of them ({percent(counts[span] / operators)})") for span in places),
            (),
            "info",
        )


def _outermost(sites: Sites) -> Function | None:
    """The function of this file that the whole forward ran in."""
    totals: dict[tuple[str, str], float] = {}
    for cost in sites.context.profile.lines:
        key = (cost.span.file, cost.function)
        totals[key] = totals.get(key, 0.0) + cost.total_ms
    file, name = max(totals, key=lambda key: totals[key])
    if file != sites.source.path:
        return None
    return next((f for f in sites.tree.functions() if sites.tree.qualname(f) == name), None)
