"""The step waits for the next batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost, Related
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.source.tree import dotted, integer, walk

# What PyTorch calls the range in which a loader makes a batch.
_NEXT = "enumerate(DataLoader)#"


class LoaderWait(Rule):
    """## What it does
    Finds loops over a `DataLoader` that spend their time waiting for batches.

    ## Why it costs
    With `num_workers=0` the samples are read, decoded and put together between two steps, while nothing computes.
    Worker processes do that for the next batches during the current step.

    ## When to ignore it
    When the data lies in memory and making a batch is quick: its share is then below the threshold.

    ## Fix safety
    There is no automatic fix. Worker processes pickle the data set, have random states of their own and cost time to
    start, most on Windows. `num_workers` with `persistent_workers=True` is the setting to try; `pin_memory=True` helps
    copies to a GPU.
    """

    name: ClassVar[str] = "loader-wait"
    summary: ClassVar[str] = "A loop that waits for its DataLoader"
    # Worker processes cost something too: handing a batch over takes about as long as making a quick one.
    threshold_factor: ClassVar[float] = 2.5
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "read-in-the-main-process",
            """\
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Disk(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        time.sleep(0.001)
        return torch.full((8,), float(i))


class Epoch(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 1)
        self.loader = DataLoader(Disk(), batch_size=4)

    def forward(self):
        outs = []
        for batch in self.loader:  #!
            outs.append(self.lin(batch))
        return torch.cat(outs)


def build():
    return Epoch(), ()
""",
        ),
        Example(
            "batches-at-hand",
            """\
import torch
from torch import nn


class Epoch(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 1)

    def forward(self, batches):
        outs = []
        for batch in batches:
            outs.append(self.lin(batch))
        return torch.cat(outs)


def build():
    return Epoch(), (torch.randn(4, 4, 8),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for cost in context.costs:
            if any(op.name.startswith(_NEXT) and op.calls for op in cost.ops):
                match = _match(sites, cost)
                if match is not None:
                    yield match


def _match(sites: Sites, cost: ExpressionCost) -> Match | None:
    node = next((n for n in sites.tree.at(cost.span)), None)
    wall = sites.context.profile.forward.wall_ms.median
    if node is None or not wall:
        return None
    waited = max(cost.total_ms, sum(op.total_ms for op in cost.ops if op.outermost and op.name.startswith(_NEXT)))
    share = min(waited / wall, 1.0)
    batches = max(op.calls for op in cost.ops if op.name.startswith(_NEXT))
    made = _loader(sites)
    workers = _workers(made) if made is not None else None
    told = "the main process makes each of them itself" if workers == 0 else "its workers do not keep up"
    if workers is None:
        told = "more workers would make them during the step"
    place = node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else node
    return Match(
        sites.source.span(place),
        f"The loop waits {waited:.3g} ms for {batches} batches, {percent(share)} of the run: {told}. Try `num_workers` "
        "with `persistent_workers=True`",
        share,
        {"waited_ms": round(waited, 3), "batches": batches},
        (Related(sites.source.span(made), "the loader"),) if made is not None else (),
    )


def _loader(sites: Sites) -> ast.Call | None:
    """The only loader that the file makes."""
    made = [
        n
        for n in walk(sites.tree.module)
        if isinstance(n, ast.Call) and (dotted(n.func) or "").split(".")[-1] == "DataLoader"
    ]
    return made[0] if len(made) == 1 else None


def _workers(made: ast.Call) -> int | None:
    if any(keyword.arg is None for keyword in made.keywords):
        return None
    given = next((k.value for k in made.keywords if k.arg == "num_workers"), None)
    return 0 if given is None and len(made.args) < 6 else integer(given)
