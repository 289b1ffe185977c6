"""What the rounds together write to, and values in its arrangement."""

from __future__ import annotations

import ast
from dataclasses import replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, meeting
from forwardlens.rules.lifting.indexing import index
from forwardlens.rules.statements.work import Work
from forwardlens.rules.windows import places_in, plain_text
from forwardlens.source.dataflow import root
from forwardlens.source.tree import dotted


def region_of(work: Work, target: ast.expr) -> Batched:
    """What the rounds together write to, as a tensor with nothing moved."""
    direct = isinstance(target, ast.Subscript) and not work.lifter.varies(target.value)
    if isinstance(target, ast.Subscript) and not work.lifter.varies(target.value):
        region = index(work.lifter, target)
    else:
        region = work.lifter.lift(target)
    if isinstance(region, Fixed) or not region.view:
        raise RefusedError(f"`{work.text(target)}` is not a plain slice to write to")
    region = unmarked(region)
    if isinstance(target, ast.Subscript):
        place = dotted(target.value) if direct else root(ast.parse(region.text, mode="eval").body)
        if place is None:
            raise RefusedError(f"it is not clear what `{work.text(target)}` writes to")
        work.written.append((work.text(target), place))
    return region


def whole(work: Work, region: Batched, target: ast.expr) -> Batched:
    """A region that each round of every loop has a part of its own of."""
    own = tuple(d for d in range(region.rank) if d not in region.loops)
    if None in region.loops or region.slots != own:
        raise RefusedError(f"`{work.text(target)}` is not a plain slice to write to")
    return region


def assignable(region: Batched) -> str:
    """The text of a region on the left of `=`."""
    return region.text if region.text.endswith("]") else f"{region.text}[:]"


def written_rank(work: Work, target: ast.Subscript) -> int | None:
    """The rank of what was written, from the copy or fill that did it."""
    if work.sites.op(target, "aten::fill_") is not None:
        return 0
    op = work.sites.op(target, "aten::copy_")
    return len(op.shapes[1]) if op is not None and len(op.shapes) > 1 else None


def added_to(region: Batched) -> str:
    """The text of a region on the left of `+=`, which a call cannot stand on."""
    return f"{region.text}[:]" if region.text.endswith(")") else region.text


def fitted(value: Value, region: Batched, seen: int | None) -> str:
    """The text of a value in the arrangement of the tensor that it meets."""
    if isinstance(value, Fixed):
        rank = seen if value.rank is None else value.rank
        if rank is not None and rank > region.round_rank:
            raise RefusedError("the value has more dimensions than the slice")
        return meeting(replace(value, rank=rank), region)
    if seen is not None and seen != value.round_rank:
        raise RefusedError("the run saw other dimensions in the value that is written")
    return meeting(value, region)


def unmarked(region: Batched) -> Batched:
    """A region that is written to, with its slices as they are: an assignment needs an index."""
    cut = region.cut
    plain = None if cut is None else replace(cut, slices=tuple(plain_text(item) for item in cut.slices))
    return replace(region, text=plain_text(region.text), cut=plain, places=places_in(region.text))
