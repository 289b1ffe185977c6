"""Writes into slices: `x[:, t] = v`, `x[:, t] += v`, `x[:, t].masked_fill_(m, c)`."""

from __future__ import annotations

import ast
from dataclasses import replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, meeting, reduced_over_last, wrapped
from forwardlens.rules.evidence import index_items
from forwardlens.rules.lifting.counters import is_counted
from forwardlens.rules.lifting.lifter import Lifter
from forwardlens.rules.statements.lengths import write_lengths
from forwardlens.rules.statements.regions import added_to, assignable, fitted, region_of, whole, written_rank
from forwardlens.rules.statements.work import Filled, Work
from forwardlens.rules.windows import plain_text
from forwardlens.source.dataflow import aliases, root
from forwardlens.source.rewrite import splice


def write(work: Work, node: ast.Assign, target: ast.Subscript) -> None:
    """`x[:, t] = v`."""
    if any(isinstance(i, ast.Slice) and _cut_per_round(work, i) for i in index_items(target)):
        return write_lengths(work, node, target)
    region = whole(work, region_of(work, target), target)
    fill = _as_masked_fill(work, node.value, region)
    if fill is not None:
        work.lines.append(fill)
        return None
    value = work.lifter.lift(node.value)
    line = f"{assignable(region)} = {fitted(value, region, written_rank(work, target))}"
    work.lines.append(line)
    work.writes.append((line, work.lifter, (value, region)))
    if isinstance(value, Batched) and isinstance(target.value, ast.Name) and region.text == target.value.id:
        work.filled[line] = Filled(region.text, value, region)
    return None


def _cut_per_round(work: Work, item: ast.Slice) -> bool:
    return work.varies(item) and not is_counted(work.lifter, item)


def _as_masked_fill(work: Work, value: ast.expr, region: Batched) -> str | None:
    """`x[:, t] = torch.where(keep, x[:, t], c)` and `x[:, t] = x[:, t].masked_fill(m, c)` as one `masked_fill_`."""
    if not isinstance(value, ast.Call) or value.keywords:
        return None
    if _is_where(work.lifter, value) and len(value.args) == 3:
        keep, yes, no = (work.lifter.lift(a) for a in value.args)
        work.lifter.meet([keep, region])
        if isinstance(keep, Fixed) or keep.round_rank > region.round_rank:
            return None
        if _is_region(yes, region) and _scalar(work, value, 2, no) is not None:
            mask, fill = _negated(keep, meeting(keep, region)), _scalar(work, value, 2, no)
        elif _is_region(no, region) and _scalar(work, value, 1, yes) is not None and keep.boolean:
            mask, fill = meeting(keep, region), _scalar(work, value, 1, yes)
        else:
            return None
    elif isinstance(value.func, ast.Attribute) and value.func.attr == "masked_fill" and len(value.args) == 2:
        source, hit, given = (work.lifter.lift(a) for a in (value.func.value, *value.args))
        work.lifter.meet([hit, region])
        fill = given.text if isinstance(given, Fixed) else None
        if not _is_region(source, region) or isinstance(hit, Fixed) or fill is None:
            return None
        if hit.round_rank > region.round_rank:
            return None
        mask = meeting(hit, region)
    else:
        return None
    return f"{region.text}.masked_fill_({mask}, {fill})"


def _is_region(value: Value, region: Batched) -> bool:
    return (
        isinstance(value, Batched)
        and value.view
        and (plain_text(value.text), value.rank, value.loops, value.slots)
        == (region.text, region.rank, region.loops, region.slots)
    )


def _scalar(work: Work, call: ast.Call, position: int, value: Value) -> str | None:
    """The one number that a value consists of, as its text."""
    if isinstance(value, Batched):
        return value.fill
    if value.rank == 0:
        return value.text
    op = work.sites.op(call, "aten::where")
    scalar = op is not None and len(op.shapes) > position and op.shapes[position] == ()
    return value.text if scalar and value.rank is None else None


def update(work: Work, node: ast.AugAssign, target: ast.Subscript) -> None:
    """`x[:, t] += v`, or a sum over an inner loop's rounds if the slice is the same in all of them."""
    region = region_of(work, target)
    cost = work.sites.cost(node)
    ops = cost.ops if cost is not None else ()
    op = next((o for o in ops if o.outermost and o.name.endswith("_") and len(o.shapes) > 1), None)
    seen = len(op.shapes[1]) if op is not None else None
    value = work.lifter.lift(node.value)
    if None in region.loops and isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(value, Batched):
        region, value = _summed_into(work, target, region, value)
    text = fitted(value, whole(work, region, target), seen)
    if len(region.loops) == work.lifter.depth:
        work.lifter.meet([value, region])
    method = _METHODS.get(type(node.op))
    if method is not None and region.text.endswith("]") and _may_be_view(work, target):
        work.lines.append(f"{region.text}.{method}({text})")
    else:
        work.lines.append(splice(work.sites.source, node, {node.target: added_to(region), node.value: text}))


# `x[:n] += y` also assigns `x[:n]` to itself. Where x is a view of a leaf and n covers all of it, torch refuses that.
_METHODS: dict[type[ast.operator], str] = {ast.Add: "add_", ast.Sub: "sub_", ast.Mult: "mul_", ast.Div: "div_"}


def _may_be_view(work: Work, target: ast.expr) -> bool:
    place = root(target)
    return place is None or bool(aliases(work.loop.function, place) - {place})


def _summed_into(work: Work, target: ast.expr, region: Batched, value: Batched) -> tuple[Batched, Batched]:
    """A slice and what all rounds of the loops that do not move it add to it."""
    while region.loops and region.loops[-1] is None:
        value = reduced_over_last(value, "sum")
        region = replace(region, loops=region.loops[:-1])
    if not region.loops:
        raise RefusedError(f"`{work.text(target)}` is the same slice in every round")
    return region, value


def inplace(work: Work, call: ast.Call, func: ast.Attribute) -> None:
    """`x[:, t].masked_fill_(m, c)`."""
    region = whole(work, region_of(work, func.value), func.value)
    op = work.sites.op(call, f"aten::{func.attr}")
    seen = [len(s) for s in op.shapes[1:]] if op is not None else []
    parts: dict[ast.expr, str] = {func.value: wrapped(region.text, region.atom)}
    for position, arg in enumerate(call.args):
        rank = seen[position] if position < len(seen) else None
        given = work.lifter.lift(arg)
        work.lifter.meet([given, region])
        parts[arg] = fitted(given, region, rank)
    if isinstance(func.value, ast.Name):
        # A view under a name of its own: the write goes to what it is a view of.
        work.written.append((func.value.id, root(ast.parse(region.text, mode="eval").body) or ""))
    work.lines.append(splice(work.sites.source, call, parts))


def _is_where(lifter: Lifter, call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "where" and lifter.is_library(call.func)


def _negated(mask: Batched, text: str) -> str:
    """The opposite of a condition. Only booleans have a `~` that means "not"."""
    atom = mask.atom or text != mask.text
    return f"~{wrapped(text, atom)}" if mask.boolean else f"{wrapped(text, atom)} == 0"
