"""Large temporaries made and dropped in every round of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost
from forwardlens.rules.callers import by_loop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.operations import ELEMENTWISE
from forwardlens.rules.repeated import head, in_rounds
from forwardlens.rules.rounds import outermost
from forwardlens.source.tree import Looping

# Smaller tensors come out of a cache at next to no cost.
_LARGE = 1 << 20
# One temporary per round is what the result needs.
_LEAST_EXPRESSIONS = 2
_OPERATORS = frozenset(f"aten::{name}" for name in ELEMENTWISE)


class AllocationChurn(Rule):
    """## What it does
    Finds loops whose rounds make several large temporaries by elementwise work and drop them again.

    ## Why it costs
    Every temporary is allocated, written once and read once. For large tensors that is memory traffic and, on a CPU,
    fresh pages from the operating system each time; on a GPU it raises the peak and makes the allocator search.

    ## When to ignore it
    When autograd needs the temporaries for the backward: a forward that records a graph is not reported. Compiling
    the function fuses such chains without a change to the code.

    ## Fix safety
    There is no automatic fix: whether a tensor may be overwritten depends on who else holds it. Write with `out=`, or
    in place (`mul_`, `add_`) on a tensor that the loop made itself; `torch.addcmul` and `lerp` do two steps in one.
    """

    name: ClassVar[str] = "allocation-churn"
    summary: ClassVar[str] = "Large temporaries made and dropped in every round"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "chain-without-gradients",
            """\
import torch
from torch import nn


class Diffuse(nn.Module):
    @torch.no_grad()
    def forward(self, x, noise):
        for _ in range(6):
            x = ((x * 0.9 + noise * 0.1).clamp(-1, 1) - 0.5) * 2  #!
        return x


def build():
    return Diffuse(), (torch.randn(1 << 19), torch.randn(1 << 19))
""",
        ),
        Example(
            "recorded-for-the-backward",
            """\
import torch
from torch import nn


class Learned(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.ones(()))

    def forward(self, x, noise):
        for _ in range(6):
            x = (x * self.rate + noise * 0.1).clamp(-1, 1) - 0.5
        return x


def build():
    return Learned(), (torch.randn(1 << 19), torch.randn(1 << 19))
""",
        ),
        Example(
            "in-place",
            """\
import torch
from torch import nn


class Diffuse(nn.Module):
    @torch.no_grad()
    def forward(self, x, noise):
        x = x.clone()
        for _ in range(6):
            x.mul_(0.9).add_(noise, alpha=0.1).clamp_(-1, 1)
        return x


def build():
    return Diffuse(), (torch.randn(1 << 19), torch.randn(1 << 19))
""",
        ),
        Example(
            "small-tensors",
            """\
import torch
from torch import nn


class Diffuse(nn.Module):
    @torch.no_grad()
    def forward(self, x, noise):
        for _ in range(6):
            x = (x * 0.9 + noise * 0.1).clamp(-1, 1) - 0.5
        return x


def build():
    return Diffuse(), (torch.randn(64), torch.randn(64))
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        grad = context.profile.grad
        if sites is None or grad.backward_ran or grad.outputs_require_grad:
            return
        nodes = [n for n, c in sites.items() if in_rounds(c) and _makes_temporary(c)]
        for loop, made in by_loop(sites, nodes).items():
            assert isinstance(loop, Looping)
            # Each expression may run more than one operator; what counts is what a reader can write differently.
            if len(made) >= _LEAST_EXPRESSIONS:
                yield _match(sites, loop, made)


def _makes_temporary(cost: ExpressionCost) -> bool:
    elementwise = any(op.name in _OPERATORS for op in outermost(cost))
    return elementwise and cost.alloc_bytes >= _LARGE * max(1, cost.calls)


def _match(sites: Sites, loop: Looping, made: list[ast.AST]) -> Match:
    costs = [cost for node in made if (cost := sites.cost(node)) is not None]
    hot = max(made, key=lambda node: (sites.share(sites.tree.statement(node)), -getattr(node, "lineno", 0)))
    outer = sites.tree.statement(hot) if not isinstance(hot, ast.expr) else hot
    share = sum(cost.share for cost in costs)
    total = sum(cost.alloc_bytes for cost in costs)
    count = sum(cost.calls for cost in costs)
    return Match(
        sites.source.span(outer),
        f"This loop makes {count} large temporaries, {total / 1e6:.0f} MB in one forward that take "
        f"{percent(share)} of it: each is written to fresh memory, read once and dropped; without gradients they can "
        "be overwritten, with `out=` or in place",
        share,
        {"temporaries": count, "bytes": total},
        (head(sites, loop),),
    )
