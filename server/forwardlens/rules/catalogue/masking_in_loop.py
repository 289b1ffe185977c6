"""A mask applied or built row by row where broadcasting would do it at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost, Fix, Related
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import by_loop, in_loop, rounds_of
from forwardlens.rules.catalogue.expert_loop import ExpertLoop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.numbers import number_names
from forwardlens.rules.operations import MAY_BE_SAME, REDUCTIONS
from forwardlens.rules.relation import relation
from forwardlens.rules.rounds import claimed, only_elements, share_of, sorting
from forwardlens.rules.vectorise import vectorised
from forwardlens.source.dataflow import METADATA, bindings, names_read
from forwardlens.source.tree import Looping, dotted, walk

# Fewer rounds than this are cheap to leave alone.
LEAST_ROUNDS = 4

_SELECTING = frozenset({"aten::where", "aten::masked_fill", "aten::masked_fill_"})
_COMPARING = frozenset({"aten::gt", "aten::ge", "aten::lt", "aten::le", "aten::eq", "aten::ne"})
_FILLING = frozenset({"aten::fill_", "aten::zero_"})


class MaskingInLoop(Rule):
    """## What it does
    Finds loops over tokens, rows or samples whose rounds mask independently: `torch.where`, `masked_fill`,
    a comparison, or a slice set to a constant.

    ## Why it costs
    Every round pays several small operators: an index, a comparison, a selection, a write. Each of them costs its
    dispatch, and on a GPU a kernel launch, for a handful of elements. Broadcasting does the same arithmetic in one
    operator each. Slice bounds that are tensors (`mask[b, : lengths[b]]`) also make the host wait for the device.

    ## When to ignore it
    When a round reads what an earlier one wrote: that is not reported. When the loop runs a few rounds over large
    tensors, its share of the forward is below the threshold.

    ## Fix safety
    The fix is offered as safe if every round is independent, no name of a round is read after the loop, and the run
    showed the ranks of all operands, which decide where a dimension of size 1 has to go. Writes into slices stay
    in place, so that everything that shares the tensor's memory sees them as before. Lengths must not be negative.
    One number per round follows the dtype of what it meets, a column of them takes part in deciding it: where a
    `float64` threshold meets `float32` samples the result changes its dtype, which trying the fix shows.
    """

    name: ClassVar[str] = "masking-in-loop"
    summary: ClassVar[str] = "Masking row by row in a loop"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "column-by-column",
            """\
import torch
from torch import nn


class Scores(nn.Module):
    def forward(self, x, mask):
        scores = x @ x.transpose(-1, -2)
        for j in range(mask.size(1)):
            keep = mask[:, j].view(-1, 1) > 0
            column = scores[:, :, j]
            scores[:, :, j] = torch.where(keep, column, torch.full_like(column, -1e9))  #!
        return scores.softmax(dim=-1)


def build():
    return Scores(), (torch.randn(3, 24, 8), torch.randint(0, 2, (3, 24)))
""",
            """\
import torch
from torch import nn


class Scores(nn.Module):
    def forward(self, x, mask):
        scores = x @ x.transpose(-1, -2)
        keep = mask > 0
        scores[:, :, : mask.size(1)].masked_fill_(~keep[:, None, :], -1e9)
        return scores.softmax(dim=-1)


def build():
    return Scores(), (torch.randn(3, 24, 8), torch.randint(0, 2, (3, 24)))
""",
        ),
        Example(
            "per-sample-threshold",
            """\
import torch
from torch import nn


class Clip(nn.Module):
    def forward(self, x, knee):
        done = []
        for i in range(x.size(0)):
            p = x[i]
            done.append(torch.where(p > knee[i], knee[i], p))  #!
        return torch.stack(done)


def build():
    return Clip(), (torch.rand(24, 3, 4, 4), torch.rand(24))
""",
            """\
import torch
from torch import nn


class Clip(nn.Module):
    def forward(self, x, knee):
        return torch.where(x > knee[:, None, None, None], knee[:, None, None, None], x)


def build():
    return Clip(), (torch.rand(24, 3, 4, 4), torch.rand(24))
""",
        ),
        Example(
            "lengths",
            """\
import torch
from torch import nn


class Mean(nn.Module):
    def forward(self, frames, n):
        m = torch.zeros(frames.shape[:2], dtype=torch.bool, device=frames.device)
        for b in range(frames.size(0)):
            m[b, : n[b]] = True  #!
        return (frames * m.unsqueeze(-1)).sum(dim=1)


def build():
    return Mean(), (torch.randn(24, 9, 4), torch.randint(1, 10, (24,)))
""",
            """\
import torch
from torch import nn


class Mean(nn.Module):
    def forward(self, frames, n):
        m = torch.arange(frames.size(1), device=frames.device) < n[: frames.size(0), None].to(frames.device)
        return (frames * m.unsqueeze(-1)).sum(dim=1)


def build():
    return Mean(), (torch.randn(24, 9, 4), torch.randint(1, 10, (24,)))
""",
        ),
        Example(
            "in-place-rows",
            """\
import torch
from torch import nn


class Rows(nn.Module):
    def forward(self, x, dropped):
        x = x.clone()
        for row, gone in zip(x, dropped):
            row.masked_fill_(gone, 0.0)  #!
        return x


def build():
    return Rows(), (torch.randn(24, 9), torch.rand(24, 9) > 0.5)
""",
            """\
import torch
from torch import nn


class Rows(nn.Module):
    def forward(self, x, dropped):
        x = x.clone()
        x[: len(dropped)].masked_fill_(dropped[: len(x)], 0.0)
        return x


def build():
    return Rows(), (torch.randn(24, 9), torch.rand(24, 9) > 0.5)
""",
        ),
        Example(
            "compared-with-the-counter",
            """\
import torch
from torch import nn


class Causal(nn.Module):
    def forward(self, x, lengths):
        valid = []
        for t in range(x.size(1)):
            valid.append(t < lengths)  #!
        return x * torch.stack(valid, dim=1)


def build():
    return Causal(), (torch.randn(4, 24), torch.randint(1, 24, (4,)))
""",
            """\
import torch
from torch import nn


class Causal(nn.Module):
    def forward(self, x, lengths):
        return x * (torch.arange(x.size(1), device=lengths.device) < lengths[:, None])


def build():
    return Causal(), (torch.randn(4, 24), torch.randint(1, 24, (4,)))
""",
        ),
        Example(
            "mask-read-after-the-loop",
            """\
import torch
from torch import nn


class Last(nn.Module):
    def forward(self, x, mask):
        x = x.clone()
        for j in range(mask.size(1)):
            keep = mask[:, j] > 0
            x[:, j] = torch.where(keep, x[:, j], 0.0)  #!
        return x * keep.unsqueeze(1)


def build():
    return Last(), (torch.randn(4, 24), torch.randint(0, 2, (4, 24)))
""",
        ),
        Example(
            "weights-of-another-length-in-each-row",
            """\
import torch
from torch import nn


class Fade(nn.Module):
    def forward(self, x, lengths):
        fade = torch.zeros(x.size(0), x.size(1))
        for b, n in enumerate(lengths.tolist()):
            fade[b, :n] = torch.arange(n) / n  #!
        return x * fade


def build():
    return Fade(), (torch.randn(24, 30), torch.arange(24) + 5)
""",
        ),
        Example(
            "rows-of-another-length-padded",
            """\
import torch
from torch import nn


class Padded(nn.Module):
    def forward(self, rows):
        table = rows[0].new_zeros(len(rows), 30)
        for b, row in enumerate(rows):
            table[b, : len(row)] = row
        return table


def build():
    return Padded(), ([torch.randn(n + 5) for n in range(24)],)
""",
        ),
        Example(
            "carried-state",
            """\
import torch
from torch import nn


class Spikes(nn.Module):
    def forward(self, drive):
        charge = torch.zeros_like(drive[:, 0])
        spikes = []
        for t in range(drive.size(1)):
            charge = charge + drive[:, t]
            fired = charge > 1.0
            charge = torch.where(fired, torch.zeros_like(charge), charge)
            spikes.append(fired)
        return torch.stack(spikes, dim=1)


def build():
    return Spikes(), (torch.rand(4, 24),)
""",
        ),
        Example(
            "reads-the-row-before",
            """\
import torch
from torch import nn


class Fill(nn.Module):
    def forward(self, x):
        x = x.clone()
        for t in range(1, x.size(1)):
            x[:, t] = torch.where(x[:, t] > 0, x[:, t], x[:, t - 1])
        return x


def build():
    return Fill(), (torch.randn(4, 24),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        masking = [node for node, cost in sites.items() if _masks_often(sites, node, cost)]
        for loop, nodes in by_loop(sites, masking).items():
            match = _match(sites, loop, nodes)
            if match is not None:
                yield match


def _masks_often(sites: Sites, node: ast.AST, cost: ExpressionCost) -> bool:
    if rounds_of(sites, node) < LEAST_ROUNDS:
        return False
    names = {op.name for op in cost.ops if op.outermost}
    writes = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    compares = bool(names & _COMPARING) and not _is_counted(sites, node)
    selects = bool(names & _SELECTING) and not _searches(sites, node)
    return selects or compares or (writes and (bool(names & _FILLING) or _is_made_of_lengths(sites, node)))


def _is_made_of_lengths(sites: Sites, node: ast.AST) -> bool:
    """`mask[b, :n] = weights(n)`: a part of each row gets what its length alone decides."""
    statement, function, op = sites.tree.parent(node), sites.tree.function(node), sites.op(node, "aten::copy_")
    if op is None or op.shape_variants < 2 or function is None or not isinstance(statement, ast.Assign):
        return False
    own = {name for name in names_read(statement.value) if name != "self" and bindings(function, name)}
    return _is_bounded(node) and bool(own) and own <= number_names(sites, function)


def _is_bounded(node: ast.AST) -> bool:
    """`mask[b, :n]`: a part of a row, rather than all of it."""
    return any(isinstance(n, ast.Slice) and (n.lower or n.upper) is not None for n in walk(node))


def _is_counted(sites: Sites, node: ast.AST) -> bool:
    """`(a > b).sum()`, `(a == b).float().mean()`: the comparison is an answer and masks nothing.

    So are predictions, `p = (a > b).float()`, that are only compared in turn.
    """
    parent = sites.tree.parent(node)
    if isinstance(parent, ast.Assign):
        function, name = sites.tree.function(node), dotted(parent.targets[0])
        reads = [n for n in walk(function) if dotted(n) == name and isinstance(n, ast.Name)] if function else []
        reads = [n for n in reads if isinstance(n.ctx, ast.Load)]
        return len(parent.targets) == 1 and bool(reads) and all(_is_compared(sites, n) for n in reads)
    call = sites.tree.parent(parent) if isinstance(parent, ast.Attribute) else None
    if not isinstance(parent, ast.Attribute) or not isinstance(call, ast.Call):
        return False
    return parent.attr in REDUCTIONS or (parent.attr in MAY_BE_SAME and _is_counted(sites, call))


def _is_compared(sites: Sites, node: ast.AST) -> bool:
    parent = sites.tree.parent(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr in REDUCTIONS | METADATA | {"eq", "ne"}
    return isinstance(parent, ast.Compare)


def _match(sites: Sites, loop: Looping, nodes: list[ast.AST]) -> Match | None:
    independent = [n for n in nodes if isinstance(n, ast.expr) and _independent(sites, loop, n)]
    if len(independent) < len(nodes):
        return None
    if sorting(sites, loop) and not any(_selects(sites, n) for n in nodes):
        # What goes class by class is a fault of its own, whatever it does with a class's elements.
        return None
    if only_elements(sites, loop) and not any(_selects(sites, n) for n in nodes):
        # So is what asks one element after the other.
        return None
    hot = max(independent, key=lambda n: (_selects(sites, n), sites.share(n)))
    cost = sites.cost(hot)
    if cost is None:
        return None
    masks = any(not sites.outermost(n) & _FILLING or _is_bounded(n) for n in nodes)
    try:
        title = "Mask all rows at once" if masks else "Fill all rows at once"
        fix, obstacle = Fix(title, "safe", vectorised(sites, loop)), ""
    except RefusedError as refused:
        fix, obstacle = None, str(refused)
        # Without a form for all rounds, comparing alone does not make a loop one that masks.
        if not any(_selects(sites, n) for n in nodes):
            return None
        if loop in claimed(sites.context, sites, (ExpertLoop(),)):
            return None
    rounds = rounds_of(sites, hot)
    share = share_of(sites, loop)
    message = (
        f"This loop {'masks' if masks else 'fills'} row by row, {rounds} rounds of small operators that take "
        f"{percent(share)} of the forward: broadcasting does all rows in one operator each"
    )
    head = loop.iter if isinstance(loop, ast.For) else None
    return Match(
        sites.source.span(hot),
        message if fix else f"{message}. No automatic fix: {obstacle}",
        share,
        {"calls": cost.calls, "calls_per_entry": rounds},
        (Related(sites.source.span(head), "the loop that repeats it"),) if head is not None else (),
        (fix,) if fix else (),
    )


def _independent(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    """The expression, or the whole statement if it writes a slice: then what is written counts too."""
    repeated = in_loop(sites, loop, node)
    if repeated is not node:
        assert isinstance(repeated, ast.expr)
        return relation(sites, loop, repeated) == "independent"
    whole = sites.tree.statement(node) if isinstance(getattr(node, "ctx", None), ast.Store) else node
    return relation(sites, loop, whole) == "independent"


def _selects(sites: Sites, node: ast.AST) -> bool:
    asks = bool(sites.outermost(node) & (_SELECTING | _FILLING)) and not _searches(sites, node)
    return asks or _is_made_of_lengths(sites, node)


def _searches(sites: Sites, node: ast.AST) -> bool:
    """`torch.where(x > 0)` alone looks for positions."""
    return sites.inner_op(node, "aten::nonzero", "aten::nonzero_numpy") is not None
