"""Slices whose length differs from round to round: positions are compared with all rounds' lengths."""

from __future__ import annotations

import ast
from dataclasses import replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, indexed, meeting, wrapped
from forwardlens.rules.evidence import index_items
from forwardlens.rules.lifting.counters import is_counted, numbers, window
from forwardlens.rules.lifting.indexing import index_of_rank
from forwardlens.rules.statements.masks import MadeMask, made_mask
from forwardlens.rules.statements.regions import unmarked
from forwardlens.rules.statements.work import Work
from forwardlens.source.dataflow import root
from forwardlens.source.tree import dotted


def write_lengths(work: Work, node: ast.Assign, target: ast.Subscript) -> None:
    """`mask[b, : lengths[b]] = True`: the rounds' slices differ in length, so positions are compared with it."""
    items = index_items(target)
    cuts = [i for i in items if isinstance(i, ast.Slice) and work.varies(i)]
    inner = target.value
    if isinstance(inner, ast.Subscript) and dotted(inner.value) is not None and len(index_items(inner)) == 1:
        # `mask[b][: n[b]]` is `mask[b, : n[b]]`.
        items, inner = [*index_items(inner), *items], inner.value
    if len(cuts) != 1 or cuts[0].step is not None or any(isinstance(i, ast.Constant) for i in items):
        raise RefusedError(f"`{work.text(target)}` has no single length per round")
    if work.sites.op(target, "aten::copy_") is not None:
        raise RefusedError("slices of different lengths get tensors")
    cut = cuts[0]
    lower, upper = cut.lower, cut.upper
    value = work.lifter.lift(node.value)
    if isinstance(value, Batched):
        raise RefusedError("slices of different lengths get values of their own")
    if work.varies(inner):
        region = work.lifter.lift(inner)
        region = unmarked(region) if isinstance(region, Batched) else region
        place = root(ast.parse(region.text, mode="eval").body) or ""
        if isinstance(region, Fixed) or not region.view or len(items) > region.round_rank:
            raise RefusedError(f"`{work.text(target)}` is not a plain slice to write to")
        if any(isinstance(i, ast.Slice) and i is not cut and (i.lower or i.upper or i.step) for i in items):
            raise RefusedError(f"`{work.text(target)}` is not a plain slice to write to")
        work.written += [(work.text(target), place), (work.text(inner), place)]
        slot = axis = region.slots[items.index(cut)]
        base = f"{wrapped(region.text, region.atom)}"
    else:
        work.written += [(work.text(t), dotted(inner) or "") for t in (target, target.value)]
        whole = ast.copy_location(
            ast.Subscript(inner, ast.Tuple([ast.Slice() if i is cut else i for i in items]), ast.Store()), target
        )
        ranked = target if inner is target.value else target.value
        region = unmarked(index_of_rank(work.lifter, whole, index_items(whole), _rank_of_target(work, ranked)))
        axis, base = items.index(cut), work.text(inner)
        # A number in front of the cut that is no counter takes a dimension away.
        slot = axis - sum(not isinstance(i, ast.Slice) and not is_counted(work.lifter, i) for i in items[:axis])
    if slot is None or axis is None or None in region.slots or len(region.loops) != 1:
        raise RefusedError(f"`{work.text(target)}` is not a plain slice to write to")
    made = _made_of_compare(work, inner, value, region)
    device, size = (made.device, made.size(axis)) if made is not None else (f"{base}.device", f"{base}.size({axis})")
    where = f", device={device}" if device else ""
    positions = f"{work.lifter.torch}.arange({size}{where})"
    asked = _compared(work, positions, lower, upper, device)
    mask = Batched(asked, 2, (0,), tuple(1 if s == slot else None for s in region.slots), atom=False)
    text = meeting(mask, region)
    if made is not None:
        work.lines.append(f"{made.name} = {made.finished(text, text == mask.text)}")
        work.made[work.lines[-1]] = made
        return
    work.lines.append(f"{region.text}.masked_fill_({text}, {value.text})")


def _made_of_compare(work: Work, inner: ast.expr, value: Fixed, region: Batched) -> MadeMask | None:
    """How the tensor is made of a comparison alone, if it starts all one way and the loop sets the other."""
    if not isinstance(inner, ast.Name) or region.text != inner.id:
        return None
    return made_mask(work.sites, work.lifter.loops[0], inner.id, value.text)


def _compared(work: Work, positions: str, lower: ast.expr | None, upper: ast.expr | None, device: str) -> str:
    """The text that asks which positions are inside each round's bounds."""
    asked: list[str] = []
    for bound, plain, late in ((lower, ">=", ">"), (upper, "<", "<=")):
        if bound is not None:
            lengths, is_late = _lengths(work, bound, device)
            asked.append(f"{positions} {late if is_late else plain} {lengths}")
    return asked[0] if len(asked) == 1 else " & ".join(f"({one})" for one in asked)


def _lengths(work: Work, bound: ast.expr, device: str) -> tuple[str, bool]:
    """The text of all rounds' lengths as a column on a device, and whether it is one less than them.

    They may be a tensor or a list of numbers; that they are slice bounds tells that each is one integer.
    """
    if not work.varies(bound):
        return work.text(bound), False
    where = f", device={device}" if device else ""
    counted = numbers(work.lifter, bound, where)
    if counted is not None:
        return f"{counted[0]}[:, None]", counted[1] == 1
    listed = _listed(work, bound)
    if listed is not None:
        return f"{work.lifter.torch}.as_tensor({listed}{where})[:, None]", False
    number, whole = _number_read(bound)
    value = work.lifter.lift(number)
    if isinstance(value, Fixed) or value.slots:
        raise RefusedError("the length of a slice is not one number per round")
    if whole:
        value = replace(value, text=f"{wrapped(value.text, value.atom)}.long()", atom=True, cut=None)
    column = indexed(value.text, [":", "None"], atom=value.atom)
    if value.cut is not None:
        column = indexed(value.cut.stem, [value.cut.slices[0], "None"], atom=value.cut.atom)
    return f"{column}.to({device})" if device else f"{column}.cpu()", False


def _number_read(bound: ast.expr) -> tuple[ast.expr, bool]:
    """The tensor that a bound like `int(n[b].item())` reads, and whether what follows the point is cut off."""
    whole = False
    while isinstance(bound, ast.Call):
        if dotted(bound.func) == "int" and len(bound.args) == 1:
            bound, whole = bound.args[0], True
        elif isinstance(bound.func, ast.Attribute) and bound.func.attr == "item" and not bound.args:
            bound = bound.func.value
        else:
            break
    return bound, whole


def _listed(work: Work, bound: ast.expr) -> str | None:
    """The text of a list of numbers that `bound` takes the round's element of."""
    loop = work.lifter.loop
    if isinstance(bound, ast.Name) and bound.id in loop.elements:
        element = loop.elements[bound.id]
        if (
            element.partners
            or element.kept
            or element.cut is not None
            or element.axis != 0
            or work.varies(element.base)
        ):
            return None
        base = element.base
        unbound = any(work.sites.op(n, "aten::unbind") for n in (base, work.sites.tree.parent(base)) if n)
        if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr == "tolist":
            return work.text(base.func.value)
        return work.text(base) if dotted(base) is not None and not unbound else None
    if not isinstance(bound, ast.Subscript) or not isinstance(bound.slice, ast.Name) or work.sites.cost(bound):
        return None
    if bound.slice.id != loop.index or dotted(bound.value) is None or work.varies(bound.value):
        return None
    return indexed(work.text(bound.value), [window(work.lifter, loop, bound.value, 0, 1)])


def _rank_of_target(work: Work, target: ast.expr) -> int:
    rank = work.sites.base_rank(target) if isinstance(target, ast.Subscript) else None
    if rank is None:
        raise RefusedError(f"the run does not tell how many dimensions `{work.text(target)}` takes from")
    return rank
