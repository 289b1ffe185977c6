"""Replacing a loop over an axis by tensor work on the whole axis.

`vectorised` answers with edits only if it is sure: every round must be independent of the others, every expression
must have a form for all rounds, and nothing after the loop may read what only the loop would leave behind.
Otherwise it raises `RefusedError`, whose message says what stood in the way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from forwardlens.model import Edit
from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, arranged, fixed_text, indexed, wrapped
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.layout import LayoutMattersError, LayoutReaders
from forwardlens.rules.lifting import Lifter, lifter_for
from forwardlens.rules.loops import Loop, leaves_early, loop_of, named_slices
from forwardlens.rules.operations import JOINS, is_torch_function
from forwardlens.source.dataflow import METADATA, aliases, changes, fresh_name, overlap, read_after, root
from forwardlens.source.rewrite import (
    FORM_FEED,
    checked,
    edit_between,
    insert_before,
    offsets,
    replace_node,
    replace_statements,
    splice,
    stands_alone,
)
from forwardlens.source.tree import argument, dotted, integer

_INPLACE = frozenset("masked_fill_ zero_ fill_ copy_ add_ sub_ mul_ div_ clamp_ relu_ neg_".split())


_MOVED = re.compile(r"\.permute\([\d, ]+\)")


def vectorised(sites: Sites, node: ast.AST) -> tuple[Edit, ...]:
    """The edits that replace the loop at `node`. Raises `RefusedError`."""
    loop = loop_of(sites, node)
    if loop is None:
        raise RefusedError("the loop does not count up or run over a tensor")
    edits = _for_edits(sites, loop, loop.node) if isinstance(loop.node, ast.For) else _comprehension(sites, loop)
    fitted = checked(sites.source, edits)
    if fitted is None:
        raise RefusedError("the edits do not fit together")
    return fitted


# -- comprehensions


def _comprehension(sites: Sites, loop: Loop) -> list[Edit]:
    node = loop.node
    assert isinstance(node, (ast.ListComp, ast.GeneratorExp))
    value = lifter_for(sites, loop).lift(node.elt)
    if isinstance(value, Fixed):
        raise RefusedError("every round gives the same value")
    parent = sites.tree.parent(node)
    join = _join_of(sites, node)
    if join is not None:
        return [_replace_join(sites, join, _in_order(sites, join, _own(_joined(value, join))))]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        try:
            joins = _joins(sites, loop, name, allowed=[parent.targets[0]])
        except RefusedError:
            joins = []
        if joins:
            whole = _in_order(sites, joins[0], _own(_joined(value, joins[0])))
            return [
                replace_node(sites.source, node, whole.text),
                *(replace_node(sites.source, j.call, name) for j in joins),
            ]
    if isinstance(parent, ast.Call) and dotted(parent.func) == "sum" and parent.args == [node]:
        return [replace_node(sites.source, parent, _summed(value))]
    if isinstance(node, ast.ListComp):
        value = arranged(value, value.natural)
        return [replace_node(sites.source, node, f"list({wrapped(value.text, value.atom)}.unbind({value.loop}))")]
    raise RefusedError("the values are not put together into one tensor")


def _summed(value: Batched) -> str:
    """All rounds' values added up."""
    put = arranged(value, value.natural)
    return f"{wrapped(put.text, put.atom)}.sum({put.loop})"


# -- lists that are stacked after the loop


@dataclass(frozen=True)
class Join:
    """A call that makes one tensor of a list: `torch.stack` with a new dimension, or `torch.cat`."""

    call: ast.Call
    stack: bool
    dim: int


def _join_of(sites: Sites, items: ast.AST) -> Join | None:
    """The `torch.stack` or `torch.cat` that `items` is the first argument of."""
    call = sites.tree.parent(items)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not items:
        return None
    name = dotted(call.func)
    if name in {"tuple", "list"} and len(call.args) == 1:
        return _join_of(sites, call)
    joins = isinstance(call.func, ast.Attribute) and call.func.attr in JOINS
    if not joins or not is_torch_function(sites.tree.module, call.func) or len(call.args) + len(call.keywords) > 2:
        return None
    if any(k.arg not in {"dim", "axis"} for k in call.keywords):
        return None
    given = argument(call, 1, "dim") or argument(call, 1, "axis")
    dim = 0 if given is None else integer(given)
    return None if dim is None else Join(call, (name or "").endswith(".stack"), dim)


def _joins(sites: Sites, loop: Loop, name: str, allowed: Sequence[ast.AST]) -> list[Join]:
    """How the list `name` is put together. Refuses if it is used for anything else."""
    found: list[Join] = []
    for node in ast.walk(loop.function):
        if not isinstance(node, ast.Name) or node.id != name or any(node is a for a in allowed):
            continue
        join = _join_of(sites, node)
        if join is None or node.lineno < (loop.node.end_lineno or 0):
            raise RefusedError(f"`{name}` is used for more than to be stacked")
        found.append(join)
    if len({(j.stack, j.dim) for j in found}) > 1:
        raise RefusedError(f"`{name}` is stacked in several ways")
    return found


def _joined(value: Batched, join: Join) -> Batched:
    """All rounds' values as `torch.stack` or `torch.cat` would put them together."""
    rank = value.round_rank
    dim = join.dim if join.dim >= 0 else join.dim + rank + (1 if join.stack else 0)
    if not 0 <= dim <= rank - (0 if join.stack else 1):
        raise RefusedError("the values have too few dimensions to be put together like this")
    if join.stack:
        return arranged(value, rank - dim)
    if value.slots[dim] is None:
        return arranged(replace(value, slots=(*value.slots[:dim], *value.slots[dim + 1 :])), rank - 1 - dim)
    whole = arranged(value, rank - dim)
    text = f"{wrapped(whole.text, whole.atom)}.flatten({dim}, {dim + 1})"
    return replace(whole, text=text, atom=True, view=False, cut=None)


def _own(value: Batched) -> Batched:
    """Stacking copies: a value that is only a view of another tensor has to be copied too."""
    return replace(value, text=f"{wrapped(value.text, value.atom)}.clone()", atom=True) if value.view else value


def _in_order(sites: Sites, join: Join, value: Batched) -> Batched:
    """A joined tensor lies in the order of its dimensions: copy one with moved dimensions, if a reader may care."""
    if not _MOVED.search(value.text):
        return value
    readers = LayoutReaders(sites)
    try:
        readers.follow(join.call)
    except LayoutMattersError:
        return replace(value, text=f"{wrapped(value.text, value.atom)}.contiguous()", atom=True, view=False)
    return value


def _replace_join(sites: Sites, join: Join, value: Batched) -> Edit:
    parent = sites.tree.parent(join.call)
    enclosed = isinstance(parent, (ast.stmt, ast.keyword)) or (
        isinstance(parent, ast.Call) and join.call in parent.args
    )
    return replace_node(sites.source, join.call, value.text if enclosed else wrapped(value.text, value.atom))


# -- `for` loops


@dataclass(frozen=True)
class _Appended:
    name: str
    value: Batched
    receiver: ast.Name
    statement: ast.stmt


class _Rounds:
    """Works through the statements of a round and collects the lines that stand for all rounds."""

    def __init__(self, sites: Sites, loop: Loop) -> None:
        self.sites = sites
        self.loop = loop
        self.lifter: Lifter = lifter_for(sites, loop)
        self.lines: list[tuple[ast.stmt, str]] = []
        self.appended: list[_Appended] = []
        # Text and place of every slice that the loop writes; the text is a name where the loop gives the slice.
        self.written: list[tuple[str, str]] = []
        # Names that the rounds add to.
        self.totals: set[str] = set()

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Pass):
            return None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name):
                parts = added_to_itself(node)
                return self._accumulate(node, target.id, parts) if parts else self._temporary(node, target)
            if isinstance(target, ast.Subscript):
                return self._write(node, target)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
            return self._update(node, node.target)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            parts = added_to_itself(node)
            if parts:
                return self._accumulate(node, node.target.id, parts)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return self._call(node, node.value)
        raise RefusedError(f"line {node.lineno} is more than independent tensor work")

    def _temporary(self, node: ast.Assign, target: ast.Name) -> None:
        if target.id in self.loop.variables or target.id in self.lifter.values:
            raise RefusedError(f"`{target.id}` is bound twice in a round")
        value = self.lifter.lift(node.value)
        if isinstance(value, Batched) and value.view:
            # Another name for the same memory: what is written to one is read from the other.
            self.lifter.values[target.id] = value
            return
        self.lines.append((node, splice(self.sites.source, node, {node.value: value.text})))
        self.lifter.values[target.id] = (
            replace(value, text=target.id, atom=True, cut=None)
            if isinstance(value, Batched)
            else Fixed(target.id, value.rank, atom=True)
        )

    def _accumulate(self, node: ast.Assign | ast.AugAssign, name: str, parts: Sequence[ast.expr]) -> None:
        """`total = total + part`: the sum over all rounds is added once."""
        uses = [n for n in ast.walk(self.loop.node) if isinstance(n, ast.Name) and n.id == name]
        if len(uses) != (1 if isinstance(node, ast.AugAssign) else 2):
            raise RefusedError(f"`{name}` is used in the loop while it adds up")
        if name in self.loop.variables:
            raise RefusedError(f"`{name}` is bound twice in a round")
        sums: dict[ast.expr, str] = {}
        for part in parts:
            value = self.lifter.lift(part)
            if isinstance(value, Fixed):
                raise RefusedError("every round adds the same value")
            sums[part] = _summed(value)
        self.totals.add(name)
        self.lines.append((node, splice(self.sites.source, node, sums)))

    def _call(self, node: ast.Expr, call: ast.Call) -> None:
        func = call.func
        if not isinstance(func, ast.Attribute):
            raise RefusedError(f"`{self._text(call)}` may do something besides tensor work")
        if func.attr == "append" and isinstance(func.value, ast.Name) and len(call.args) == 1:
            value = self.lifter.lift(call.args[0])
            if isinstance(value, Fixed):
                raise RefusedError("every round appends the same value")
            self.appended.append(_Appended(func.value.id, value, func.value, node))
        elif func.attr in _INPLACE and not call.keywords:
            self._inplace(node, call, func)
        else:
            raise RefusedError(f"`{self._text(call)}` may do something besides tensor work")

    # -- writes into slices

    def _region(self, target: ast.expr) -> Batched:
        """What the rounds together write to, as a tensor with nothing moved."""
        region = self.lifter.index(target) if isinstance(target, ast.Subscript) else self.lifter.lift(target)
        if isinstance(region, Fixed) or not region.plain or not region.view:
            raise RefusedError(f"`{self._text(target)}` is not a plain slice to write to")
        if isinstance(target, ast.Subscript):
            self._note_write(target)
        return region

    def _note_write(self, target: ast.Subscript) -> None:
        place = dotted(target.value)
        if place is None:
            raise RefusedError(f"it is not clear what `{self._text(target)}` writes to")
        self.written.append((self._text(target), place))

    def _write(self, node: ast.Assign, target: ast.Subscript) -> None:
        if any(isinstance(i, ast.Slice) and self._varies(i) for i in index_items(target)):
            return self._write_lengths(node, target)
        region = self._region(target)
        fill = self._as_masked_fill(node.value, region)
        if fill is not None:
            self.lines.append((node, fill))
            return None
        text = self._fitted(self.lifter.lift(node.value), region, self._written_rank(target))
        self.lines.append((node, f"{self._assignable(region)} = {text}"))
        return None

    def _assignable(self, region: Batched) -> str:
        return region.text if region.text.endswith("]") else f"{region.text}[:]"

    def _written_rank(self, target: ast.Subscript) -> int | None:
        """The rank of what was written, from the copy or fill that did it."""
        if self.sites.op(target, "aten::fill_") is not None:
            return 0
        op = self.sites.op(target, "aten::copy_")
        return len(op.shapes[1]) if op is not None and len(op.shapes) > 1 else None

    def _fitted(self, value: Value, region: Batched, seen: int | None) -> str:
        """The text of a value in the arrangement of the tensor that it meets."""
        right = region.rank - 1 - region.loop
        if isinstance(value, Fixed):
            rank = seen if value.rank is None else value.rank
            if rank is not None and rank > region.round_rank:
                raise RefusedError("the value has more dimensions than the slice")
            return fixed_text(replace(value, rank=rank), right)
        if value.round_rank > region.round_rank:
            raise RefusedError("the value has more dimensions than the slice")
        if seen is not None and seen != value.round_rank:
            raise RefusedError("the run saw other dimensions in the value that is written")
        return arranged(value, right).text

    def _as_masked_fill(self, value: ast.expr, region: Batched) -> str | None:
        """`x[:, t] = torch.where(keep, x[:, t], c)` and `x[:, t] = x[:, t].masked_fill(m, c)` as one `masked_fill_`."""
        if not isinstance(value, ast.Call) or value.keywords:
            return None
        right = region.rank - 1 - region.loop
        if _is_where(self.lifter, value) and len(value.args) == 3:
            keep, yes, no = (self.lifter.lift(a) for a in value.args)
            if isinstance(keep, Fixed) or keep.round_rank > region.round_rank:
                return None
            if self._is_region(yes, region) and self._scalar(value, 2, no) is not None:
                mask, fill = _negated(arranged(keep, right), keep.boolean), self._scalar(value, 2, no)
            elif self._is_region(no, region) and self._scalar(value, 1, yes) is not None and keep.boolean:
                mask, fill = arranged(keep, right).text, self._scalar(value, 1, yes)
            else:
                return None
        elif isinstance(value.func, ast.Attribute) and value.func.attr == "masked_fill" and len(value.args) == 2:
            source, hit, given = (self.lifter.lift(a) for a in (value.func.value, *value.args))
            fill = given.text if isinstance(given, Fixed) else None
            if not self._is_region(source, region) or isinstance(hit, Fixed) or fill is None:
                return None
            if hit.round_rank > region.round_rank:
                return None
            mask = arranged(hit, right).text
        else:
            return None
        return f"{region.text}.masked_fill_({mask}, {fill})"

    @staticmethod
    def _is_region(value: Value, region: Batched) -> bool:
        return (
            isinstance(value, Batched)
            and value.view
            and (value.text, value.rank, value.loop, value.slots)
            == (region.text, region.rank, region.loop, region.slots)
        )

    def _scalar(self, call: ast.Call, position: int, value: Value) -> str | None:
        """The one number that a value consists of, as its text."""
        if isinstance(value, Batched):
            return value.fill
        if value.rank == 0:
            return value.text
        op = self.sites.op(call, "aten::where")
        scalar = op is not None and len(op.shapes) > position and op.shapes[position] == ()
        return value.text if scalar and value.rank is None else None

    def _write_lengths(self, node: ast.Assign, target: ast.Subscript) -> None:
        """`mask[b, : lengths[b]] = True`: the rounds' slices differ in length, so positions are compared with it."""
        items = index_items(target)
        cuts = [i for i in items if isinstance(i, ast.Slice) and self._varies(i)]
        inner = target.value
        if isinstance(inner, ast.Subscript) and dotted(inner.value) is not None and len(index_items(inner)) == 1:
            # `mask[b][: n[b]]` is `mask[b, : n[b]]`.
            items, inner = [*index_items(inner), *items], inner.value
        if len(cuts) != 1 or cuts[0].step is not None or any(isinstance(i, ast.Constant) for i in items):
            raise RefusedError(f"`{self._text(target)}` has no single length per round")
        if self.sites.op(target, "aten::copy_") is not None:
            raise RefusedError("slices of different lengths get tensors")
        cut, axis = cuts[0], items.index(cuts[0])
        lower, upper = cut.lower, cut.upper
        if (lower is None) == (upper is None):
            raise RefusedError(f"`{self._text(target)}` has two bounds per round")
        base = self._text(inner)
        lengths = self._lengths(upper if upper is not None else lower, base)
        value = self.lifter.lift(node.value)
        if isinstance(value, Batched):
            raise RefusedError("slices of different lengths get values of their own")
        self.written += [(self._text(t), dotted(inner) or "") for t in (target, target.value)]
        whole = ast.copy_location(
            ast.Subscript(inner, ast.Tuple([ast.Slice() if i is cut else i for i in items]), ast.Store()), target
        )
        ranked = target if inner is target.value else target.value
        region = self.lifter.index_of_rank(whole, index_items(whole), self._rank_of_target(ranked))
        counted = next(d for d in range(region.rank) if d != region.loop and d == axis)
        positions = f"{self.lifter.torch}.arange({base}.size({axis}), device={base}.device)"
        compared = f"{positions} {'<' if upper is not None else '>='} {lengths}"
        mask = Batched(compared, 2, 0, tuple(1 if s == counted else None for s in region.slots), atom=False)
        right = region.rank - 1 - region.loop
        self.lines.append((node, f"{region.text}.masked_fill_({arranged(mask, right).text}, {value.text})"))

    def _lengths(self, bound: ast.expr | None, base: str) -> str:
        """The text of all rounds' lengths as a column on the device of `base`.

        They may be a tensor or a list of numbers; that they are slice bounds tells that each is one integer.
        """
        if bound is None:
            raise RefusedError("a slice has no bound")
        listed = self._listed(bound)
        if listed is not None:
            return f"{self.lifter.torch}.as_tensor({listed}, device={base}.device)[:, None]"
        value = self.lifter.lift(bound)
        if isinstance(value, Fixed) or value.slots:
            raise RefusedError("the length of a slice is not one number per round")
        column = indexed(value.text, [":", "None"], atom=value.atom)
        if value.cut is not None:
            column = indexed(value.cut.stem, [value.cut.slices[0], "None"], atom=value.cut.atom)
        return f"{column}.to({base}.device)"

    def _listed(self, bound: ast.expr) -> str | None:
        """The text of a list of numbers that `bound` takes the round's element of."""
        loop = self.loop
        if isinstance(bound, ast.Name) and bound.id in loop.elements:
            element = loop.elements[bound.id]
            if element.partner is not None or element.axis != 0 or self._varies(element.base):
                return None
            base = element.base
            unbound = any(self.sites.op(n, "aten::unbind") for n in (base, self.sites.tree.parent(base)) if n)
            if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr == "tolist":
                return self._text(base.func.value)
            return self._text(base) if dotted(base) is not None and not unbound else None
        if not isinstance(bound, ast.Subscript) or not isinstance(bound.slice, ast.Name) or self.sites.cost(bound):
            return None
        if bound.slice.id != loop.index or dotted(bound.value) is None or self._varies(bound.value):
            return None
        return indexed(self._text(bound.value), [self.lifter.window(bound.value, 0, 1)])

    def _rank_of_target(self, target: ast.expr) -> int:
        rank = self.sites.base_rank(target) if isinstance(target, ast.Subscript) else None
        if rank is None:
            raise RefusedError(f"the run does not tell how many dimensions `{self._text(target)}` takes from")
        return rank

    def _update(self, node: ast.AugAssign, target: ast.Subscript) -> None:
        """`x[:, t] += v`."""
        region = self._region(target)
        op = next((o for o in self._ops(node) if o.outermost and o.name.endswith("_") and len(o.shapes) > 1), None)
        text = self._fitted(self.lifter.lift(node.value), region, len(op.shapes[1]) if op is not None else None)
        self.lines.append((node, splice(self.sites.source, node, {node.target: region.text, node.value: text})))

    def _ops(self, node: ast.AST):
        cost = self.sites.cost(node)
        return cost.ops if cost is not None else ()

    def _inplace(self, node: ast.Expr, call: ast.Call, func: ast.Attribute) -> None:
        """`x[:, t].masked_fill_(m, c)`."""
        region = self._region(func.value)
        op = self.sites.op(call, f"aten::{func.attr}")
        seen = [len(s) for s in op.shapes[1:]] if op is not None else []
        parts: dict[ast.expr, str] = {func.value: wrapped(region.text, region.atom)}
        for position, arg in enumerate(call.args):
            rank = seen[position] if position < len(seen) else None
            parts[arg] = self._fitted(self.lifter.lift(arg), region, rank)
        if isinstance(func.value, ast.Name):
            # A view under a name of its own: the write goes to what it is a view of.
            self.written.append((func.value.id, root(ast.parse(region.text, mode="eval").body) or ""))
        self.lines.append((node, splice(self.sites.source, call, parts)))

    def _varies(self, node: ast.AST) -> bool:
        return self.lifter.varies(node)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self.sites.tree.text(node)


def _is_where(lifter: Lifter, call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "where" and lifter.is_library(call.func)


def _negated(mask: Batched, boolean: bool) -> str:
    """The opposite of a condition. Only booleans have a `~` that means "not"."""
    return f"~{wrapped(mask.text, mask.atom)}" if boolean else f"{wrapped(mask.text, mask.atom)} == 0"


def _for_edits(sites: Sites, loop: Loop, node: ast.For) -> list[Edit]:
    if leaves_early(node):
        raise RefusedError("a round may end early")
    if not stands_alone(sites.tree, node):
        raise RefusedError("the loop shares a line with other code")
    rounds = _Rounds(sites, loop)
    rounds.lifter.writes = any(_is_tensor_write(n) for n in ast.walk(node))
    for statement in node.body:
        rounds.statement(statement)
    _require_independent(sites, loop, node, rounds)
    for name in sorted({*loop.variables, *rounds.lifter.bound} - rounds.totals):
        if read_after(sites.tree, node, name):
            raise RefusedError(f"`{name}` is read after the loop")
    edits: list[Edit] = []
    lines = [*rounds.lines]
    for appended in rounds.appended:
        if appended.value.view and rounds.written:
            raise RefusedError(f"`{appended.name}` may hold slices that the loop writes to")
        later = len(rounds.appended) == 1 and not rounds.written
        more, line = _appended_edits(sites, loop, node, appended, later)
        edits += more
        if line is not None:
            lines.append((appended.statement, line))
    order = {statement: n for n, statement in enumerate(node.body)}
    lines.sort(key=lambda item: order[item[0]])
    return [*edits, _replace_loop(sites, node, _without_unread(lines, edits, rounds.lifter.bound - rounds.totals))]


def _without_unread(
    lines: Sequence[tuple[ast.stmt, str]], edits: Sequence[Edit], temporaries: Iterable[str]
) -> list[tuple[ast.stmt, str]]:
    """Leave out assignments to `temporaries` of the loop that nothing reads any more. None is read after the loop."""
    kept = list(lines)
    for name in sorted(temporaries):
        own = [item for item in kept if re.match(rf"{re.escape(name)} = ", item[1])]
        rest = [*(text for statement, text in kept if (statement, text) not in own), *(edit.text for edit in edits)]
        if len(own) == 1 and not any(re.search(rf"\b{re.escape(name)}\b", text) for text in rest):
            kept.remove(own[0])
    # What was left out may have been the last reader of another one.
    return kept if len(kept) == len(lines) else _without_unread(kept, edits, temporaries)


def _is_tensor_write(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _INPLACE


def _appended_edits(
    sites: Sites, loop: Loop, node: ast.For, appended: _Appended, later: bool
) -> tuple[list[Edit], str | None]:
    """The edits around a list that the loop fills, and the line that takes the `append`'s place, if it needs one.

    `later` allows to compute the value only where the list is stacked, if that is the next statement.
    """
    tree, name = sites.tree, appended.name
    block = tree.block(node)
    before = block[: block.index(node)]
    start = next((s for s in reversed(before) if _is_empty_list(s, name)), None)
    if start is None or not isinstance(start, ast.Assign) or not stands_alone(tree, start):
        raise RefusedError(f"`{name}` does not start as an empty list beside the loop")
    joins = _joins(sites, loop, name, allowed=[appended.receiver, start.targets[0]])
    if not joins:
        raise RefusedError(f"`{name}` is not stacked")
    whole = _in_order(sites, joins[0], _own(_joined(appended.value, joins[0])))
    edits = [_without_statement(sites, start)]
    following = block[block.index(node) + 1 :]
    simple = bool(following) and isinstance(following[0], (ast.Assign, ast.Return, ast.Expr, ast.AnnAssign))
    if simple and later and len(joins) == 1 and tree.statement(joins[0].call) is following[0]:
        return [*edits, _replace_join(sites, joins[0], whole)], None
    edits += [replace_node(sites.source, join.call, name) for join in joins]
    return edits, f"{name} = {whole.text}"


def _is_empty_list(statement: ast.stmt, name: str) -> bool:
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or dotted(statement.targets[0]) != name:
        return False
    value = statement.value
    call = isinstance(value, ast.Call) and dotted(value.func) == "list" and not value.args
    return call or (isinstance(value, ast.List) and not value.elts)


def _without_statement(sites: Sites, statement: ast.stmt) -> Edit:
    """Remove a statement with its line, or leave its comment there."""
    source = sites.source
    _, end = offsets(source, statement)
    line, column = source.position(end)
    rest = source.line(line)[column:]
    if "#" in rest:
        start, _ = offsets(source, statement)
        return edit_between(source, start, end + rest.index("#"), "")
    return replace_statements(sites.tree, [statement], [])


def _replace_loop(sites: Sites, node: ast.For, lines: Sequence[tuple[ast.stmt, str]]) -> Edit:
    """Put `lines` in the loop's place. Its comments stay, behind or above the line that replaces their statement."""
    source = sites.source
    texts: dict[ast.stmt, list[str]] = {}
    for statement, text in lines:
        texts.setdefault(statement, []).append(text)
    result: list[str] = []
    done = offsets(source, node)[0]
    for statement in node.body:
        start, end = offsets(source, statement)
        result += _comments(source.text[done:start])
        done = source.offset(statement.end_lineno or 0, len(source.line(statement.end_lineno or 0)))
        inner, behind = _comments(source.text[start:end]), _comments(source.text[end:done])
        own = texts.get(statement, [])
        if own and behind:
            result += [*inner, *own[:-1], f"{own[-1]}  {behind[0]}"]
        else:
            result += [*inner, *behind, *own]
    if result:
        first = source.offset(node.lineno, 0) + len(source.indentation(node.lineno))
        indent = source.indentation(node.lineno).replace(FORM_FEED, "")
        return edit_between(source, first, done, f"{source.newline}{indent}".join(result))
    return replace_statements(sites.tree, [node], [])


def _comments(text: str) -> list[str]:
    """What looks like a comment in a stretch of text, one for each of its lines."""
    return [line[line.index("#") :].rstrip() for line in text.splitlines() if "#" in line]


def _require_independent(sites: Sites, loop: Loop, node: ast.For, rounds: _Rounds) -> None:
    """Refuse if a round may read what another one wrote."""
    texts = {text for text, _ in rounds.written}
    places = {place for _, place in rounds.written}
    own = rounds.lifter.bound | loop.variables
    for place in places:
        shared = aliases(loop.function, place)
        if any(other != place and any(overlap(other, s) for s in shared) for other in places):
            raise RefusedError(f"`{place}` may share its memory with something else that the loop writes")
        named = named_slices(sites, node)
        for name, element in loop.elements.items():
            if not texts & {name, named.get(name, "")} and any(overlap(root(element.base) or "", s) for s in shared):
                raise RefusedError(f"`{name}` is a slice of what the loop writes to")
        for statement in node.body:
            for read in ast.walk(statement):
                if _reads_elsewhere(sites, read, shared, texts, own):
                    raise RefusedError(f"a round may read what another one wrote to `{place}`")
    for appended in rounds.appended:
        if sum(isinstance(n, ast.Name) and n.id == appended.name for n in ast.walk(node)) != 1:
            raise RefusedError(f"`{appended.name}` is read inside the loop")
    for name in rounds.totals:
        shared = aliases(loop.function, name) - {name}
        if any(overlap(place, s) for place in places for s in shared) or _adds_in_place(node, name, shared):
            raise RefusedError(f"`{name}` may share its memory with something else")
    known = {*places, *rounds.totals, *(a.name for a in rounds.appended)}
    for _, place in changes(node):
        if place is None or not (place in known or place in own):
            raise RefusedError(f"the loop changes `{place}`")


def _adds_in_place(node: ast.For, name: str, shared: frozenset[str]) -> bool:
    """Whether `name += part` may change a tensor that the loop reads under another name."""
    augmented = any(isinstance(n, ast.AugAssign) and dotted(n.target) == name for n in ast.walk(node))
    reads = {dotted(n) for n in ast.walk(node) if isinstance(n, (ast.Name, ast.Attribute))}
    return augmented and any(r is not None and overlap(r, s) for r in reads for s in shared)


def added_to_itself(node: ast.stmt) -> tuple[ast.expr, ...]:
    """What a statement adds to a name, or takes from it: `a` and `b` of `x = x + a - b`, `a` of `x += a`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return (node.value,) if isinstance(node.op, (ast.Add, ast.Sub)) else ()
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return ()
    name, value, parts = node.targets[0].id, node.value, list[ast.expr]()
    while isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        if dotted(value.right) == name and isinstance(value.op, ast.Add) and dotted(value.left) != name:
            return (*reversed([*parts, value.left]),)
        parts.append(value.right)
        value = value.left
    return (*reversed(parts),) if parts and dotted(value) == name else ()


def _reads_elsewhere(
    sites: Sites, read: ast.AST, shared: frozenset[str], texts: set[str], bound: frozenset[str]
) -> bool:
    """Whether `read` may see memory of `place` beyond the slice that the round itself writes."""
    if not isinstance(read, (ast.Name, ast.Attribute)) or isinstance(read.ctx, ast.Store):
        return False
    name = dotted(read)
    parent = sites.tree.parent(read)
    if name is None:
        return False
    if isinstance(parent, ast.Attribute) and parent.attr not in METADATA:
        # Of `self.cache.data` only the longest chain counts; a method call on a place is a read of it.
        grand = sites.tree.parent(parent)
        if not (isinstance(grand, ast.Call) and grand.func is parent):
            return False
    if not any(overlap(name, s) for s in shared) or name.split(".")[0] in bound or name == "self":
        return False
    if any(isinstance(n, ast.Attribute) and n.attr in METADATA for n in (read, parent)):
        return False
    return not (isinstance(parent, ast.Subscript) and parent.value is read and sites.tree.text(parent) in texts)


# -- one expression out of a loop that has to stay


def hoisted(sites: Sites, call: ast.expr, wanted: str) -> tuple[Edit, ...]:
    """Compute `call` for all rounds before the loop, into a new name, and take the round's part inside it.

    Where the loop has no counter, and only `call` reads its variable, the loop runs over the parts instead.
    Raises `RefusedError`.
    """
    tree = sites.tree
    node = next(tree.loops(call), None)
    loop = loop_of(sites, node) if isinstance(node, ast.For) else None
    if loop is None or not isinstance(node, ast.For) or loop.start:
        raise RefusedError("the loop has no counter to pick a round's part with")
    if leaves_early(node) or tree.statement(call) not in node.body or not stands_alone(tree, node):
        raise RefusedError("it does not happen in every round")
    lifter = lifter_for(sites, loop)
    _know_temporaries(lifter, node, tree.statement(call))
    value = lifter.lift(call)
    if isinstance(value, Fixed):
        raise RefusedError("every round gives the same value")
    value = arranged(value, value.natural)
    _require_unchanged(loop, node, call)
    name = fresh_name(loop.function, wanted)
    if loop.index is not None:
        inside = [replace_node(sites.source, call, indexed(name, [*[":"] * value.loop, loop.index]))]
    else:
        inside = _iterated_parts(sites, loop, node, call, f"{name}.unbind({value.loop})" if value.loop else name)
    edits = checked(sites.source, [insert_before(tree, node, [f"{name} = {value.text}"]), *inside])
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def _iterated_parts(sites: Sites, loop: Loop, node: ast.For, call: ast.expr, parts: str) -> list[Edit]:
    """Run the loop over `parts`, whose round's part takes the place of `call`."""
    names = list(loop.elements)
    used = [n for n in ast.walk(loop.function) if isinstance(n, ast.Name) and n.id in names]
    if len(names) != 1 or not isinstance(node.target, ast.Name):
        raise RefusedError("the loop has no counter to pick a round's part with")
    inside = {id(n) for n in ast.walk(call)}
    if any(id(n) not in inside for n in used if n is not node.target):
        raise RefusedError("the loop needs its variable for more, and has no counter")
    return [replace_node(sites.source, node.iter, parts), replace_node(sites.source, call, names[0])]


def _know_temporaries(lifter: Lifter, node: ast.For, until: ast.stmt) -> None:
    """Let the lifter see through `ids = x[:, t]` in front of the expression."""
    for statement in node.body[: node.body.index(until)]:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        stores = sum(
            isinstance(n, ast.Name)
            and isinstance(target, ast.Name)
            and n.id == target.id
            and isinstance(n.ctx, ast.Store)
            for n in ast.walk(node)
        )
        if not isinstance(target, ast.Name) or stores != 1:
            continue
        try:
            value = lifter.lift(statement.value)
        except RefusedError:
            continue
        if isinstance(value, Batched) and value.view:
            lifter.values[target.id] = value


def _require_unchanged(loop: Loop, node: ast.For, call: ast.expr) -> None:
    """Refuse if a round may change what the expression reads."""
    reads = {place for n in ast.walk(call) if isinstance(n, (ast.Name, ast.Attribute)) and (place := dotted(n))}
    shared = {s for place in reads if place != "self" for s in aliases(loop.function, place)}
    for _, place in changes(node):
        if place is None or any(overlap(place, s) for s in shared if s != "self"):
            raise RefusedError(f"the loop changes `{place}`")
    methods = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    if methods & {"step", "backward", "load_state_dict"}:
        raise RefusedError("the weights may change inside the loop")
