"""Subscripts: slices that a counter picks, look-ups by a round's own positions, indices into a round's value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from forwardlens.rules.batched import Batched, Cut, Fixed, RefusedError, Value, arranged, indexed, wrapped
from forwardlens.rules.evidence import index_items
from forwardlens.rules.lifting.counters import block_of, is_number, is_position, position_of, window, window_of_value
from forwardlens.rules.lifting.elements import listed, placed, slots_of
from forwardlens.rules.lifting.scope import Scope, key_of
from forwardlens.rules.loops import Loop
from forwardlens.rules.reducing import leading, looked_up, on_diagonal, plain, round_dims
from forwardlens.rules.windows import places_in, plain_text
from forwardlens.source.dataflow import definition
from forwardlens.source.tree import dotted, integer, is_atom


def index(scope: Scope, node: ast.Subscript) -> Batched:
    """`x[:, t]` with a fixed `x`: what the rounds together take from it."""
    items = index_items(node)
    rank = scope.sites.base_rank(node)
    base_text = scope.text(node.value)
    if rank is None:
        raise RefusedError(f"the run does not tell how many dimensions `{base_text}` has")
    return index_of_rank(scope, node, items, rank)


def index_of_rank(scope: Scope, node: ast.Subscript, items: list[ast.expr], rank: int) -> Batched:
    """`x[items]` with a fixed `x` of that rank: what the rounds together take from it."""
    texts: list[str] = []
    slots: list[int | None] = []
    blocks: list[str] = []
    base, copied = wrapped(scope.text(node.value), is_atom(node.value)), False
    loops: list[int | None] = [None] * scope.depth
    counted_axes: list[list[int]] = [[] for _ in loops]
    second: tuple[int, int] | None = None
    axis = out = 0
    for item in _expanded(items, rank):
        if _is_none(item):
            slots.append(None)
            continue
        picked = scope.picked(item)
        if picked is not None:
            depth, name = picked
            if loops[depth] is not None or any(is_number(scope, i) for i in items):
                raise RefusedError("the loop variables are used for two dimensions")
            loops[depth] = out
            texts.append(scope.numbers_of_pairs(depth, name, scope.count_of_pairs(depth), base))
            copied = True
            out += 1
            axis += 1
            continue
        counted, block = position_of(scope, item), block_of(scope, item)
        if counted is not None or block is not None:
            depth = counted.depth if counted is not None else block.depth if block is not None else 0
            if loops[depth] is not None and (second is not None or copied):
                raise RefusedError("the loop variable is used for several dimensions")
            if loops[depth] is None:
                loops[depth] = out
            else:
                second = depth, out
            out += 1
            if counted is not None:
                counted_axes[depth].append(axis)
                texts.append(window(scope, scope.loops[depth], node.value, axis, rank, counted.shift))
                _see_length(scope, node, scope.loops[depth], texts[-1], axis, rank)
                slots += [None] if counted.kept else []
            elif block is not None:
                texts.append(f": {block.count} * {block.width}")
                blocks.append(f".unflatten({out - 1}, ({block.count}, {block.width}))")
                slots.append(out)
                out += 1
        elif is_number(scope, item):
            texts.append(scope.text(item))
        elif isinstance(item, ast.Slice) and not scope.varies(item):
            scope.require_pure(item)
            texts.append(scope.text(item))
            slots.append(out)
            out += 1
        else:
            raise RefusedError(f"`{scope.text(node)}` is not a plain slice per round")
        axis += 1
    if not any(loop is not None for loop in loops):
        raise RefusedError(f"`{scope.text(node)}` is not a plain slice per round")
    atom = is_atom(node.value)
    if second is not None:
        texts = _as_long_as_shorter(texts, counted_axes[second[0]])
    text = indexed(scope.text(node.value), texts, atom=atom)
    if blocks or second is not None:
        atom = atom or text.endswith("]")
        value = Batched(f"{text}{''.join(blocks)}", out, tuple(loops), tuple(slots), atom, view=True)
        return value if second is None else on_diagonal(value, *second)
    if copied:
        # What numbers pick is memory of its own, where a row may stand several times.
        return Batched(text, out, tuple(loops), tuple(slots))
    cut = Cut(scope.text(node.value), atom, tuple(texts)) if len(texts) == out else None
    return Batched(text, out, tuple(loops), tuple(slots), atom=True, cut=cut, view=True)


def _as_long_as_shorter(texts: list[str], axes: Sequence[int]) -> list[str]:
    """The slices that a counter gives of two axes whose diagonal is taken: the end of one of them ends it for both."""
    from_start = all(plain_text(texts[axis]).startswith(":") for axis in axes)
    ends = any(texts[axis] == ":" for axis in axes)
    return [":" if n in axes else text for n, text in enumerate(texts)] if from_start and ends else texts


def _see_length(scope: Scope, node: ast.Subscript, loop: Loop, cut: str, axis: int, rank: int) -> None:
    """Note how long the run saw an axis that a loop's counter goes along."""
    cost = scope.sites.cost(node)
    lengths = [o.shapes[0][axis] for o in cost.ops if o.shapes and len(o.shapes[0]) == rank] if cost else []
    if len(set(lengths)) == 1 and (cut == ":" or places_in(cut)):
        scope.lengths.see(key_of(loop), cut, lengths[0])


def _expanded(items: list[ast.expr], rank: int) -> list[ast.expr]:
    """`items` with `...` written out and the dimensions that they leave out added."""
    used = sum(not _is_none(i) and not _is_ellipsis(i) for i in items)
    missing: list[ast.expr] = [ast.Slice() for _ in range(rank - used)]
    if used > rank:
        raise RefusedError("an index has more items than the run saw dimensions")
    if not any(_is_ellipsis(i) for i in items):
        return [*items, *missing]
    cut = next(n for n, i in enumerate(items) if _is_ellipsis(i))
    return [*items[:cut], *missing, *items[cut + 1 :]]


def subscript(scope: Scope, node: ast.Subscript) -> Value:
    """An index into a fixed tensor or list, or into a round's value."""
    if not scope.varies(node.value):
        items = index_items(node)
        if any(scope.picked(i) for i in items):
            scope.require_pure(node.value)
            return index(scope, node)
        listed = _listed_slice(scope, node, items)
        if listed is not None:
            return listed
        looked = [i for i in items if _is_computed(scope, i)]
        others = [i for i in items if i not in looked]
        if looked and all(isinstance(i, ast.Slice) and not scope.varies(i) for i in others):
            return _gather(scope, node, items, looked[0]) if len(looked) == 1 else _pick(scope, node, items, looked)
        scope.require_pure(node.value)
        return _row_look_up(scope, node, items, looked[0]) if len(looked) == 1 else index(scope, node)
    value = scope.lift(node.value)
    if isinstance(value, Fixed):
        raise RefusedError(f"`{scope.text(node)}` is not a plain slice per round")
    looked = [i for i in index_items(node) if _is_computed(scope, i)]
    if len(looked) == 1:
        return _look_up(scope, node, value, index_items(node), looked[0])
    return _index_batched(scope, node, value)


def _listed_slice(scope: Scope, node: ast.Subscript, items: list[ast.expr]) -> Batched | None:
    """`columns[t]` where `columns = x.unbind(1)`."""
    function = scope.loops[0].function
    counted = position_of(scope, items[0]) if len(items) == 1 else None
    name = node.value.id if isinstance(node.value, ast.Name) else None
    made = None if name is None or counted is None else definition(scope.sites.tree, function, name)
    element = None if made is None or name is None else listed(scope, function, made, name)
    place = None if element is None else dotted(element.base)
    if element is None or counted is None or place is None or element.cut is not None or counted.kept:
        return None
    if made is not None:
        scope.lists_read.add(made)
    rank, axis = placed(scope, element)
    cut = window(scope, scope.loops[counted.depth], node.value, 0, 1, counted.shift)
    texts = [cut if d == axis else ":" for d in range(rank)]
    slots, loops = slots_of(element, rank, axis), scope.only(counted.depth, axis)
    return Batched(indexed(place, texts), rank, loops, slots, cut=Cut(place, atom=True, slices=(*texts,)), view=True)


def _is_computed(scope: Scope, item: ast.expr) -> bool:
    """Whether an item of an index is computed in the round: a position, or a tensor of them."""
    return not isinstance(item, ast.Slice) and position_of(scope, item) is None and scope.varies(item)


def _row_look_up(scope: Scope, node: ast.Subscript, items: list[ast.expr], looked: ast.expr) -> Batched:
    """`x[b, ids[b]]`: in each round's slice of `x`, what the round's positions name."""
    loops = [n for n, i in enumerate(items) if is_position(scope, i)]
    rank = scope.sites.base_rank(node)
    cost = scope.sites.cost(node)
    seen = [o for o in cost.ops if o.name in {"aten::select", "aten::index"} and o.shapes] if cost else []
    rank = max((len(o.shapes[0]) for o in seen), default=rank or 0)
    if len(loops) != 1 or rank < len(items) or any(_is_ellipsis(i) or _is_none(i) for i in items):
        raise RefusedError(f"`{scope.text(node)}` is not a plain look-up")
    whole = [i if is_position(scope, i) else ast.Slice() for i in items]
    value = index_of_rank(scope, node, whole, rank)
    return _look_up(scope, node, value, [i for i in items if not is_position(scope, i)], looked)


def _look_up(scope: Scope, node: ast.Subscript, value: Batched, items: list[ast.expr], looked: ast.expr) -> Batched:
    cost = scope.sites.cost(node)
    ids = scope.lift(looked)
    if cost is None or isinstance(ids, Fixed) or ids.boolean or cost.op_calls("aten::nonzero", "aten::item"):
        # With `item` the index is one position, which selects; that has the same form.
        single = cost is not None and not cost.op_calls("aten::nonzero") and isinstance(ids, Batched)
        if not single or not isinstance(ids, Batched) or ids.slots or ids.boolean:
            raise RefusedError(f"`{scope.text(node)}` is not a plain look-up")
    entries: list[str | Batched] = []
    for item in [*items, *[ast.Slice()] * (value.round_rank - len(items))]:
        if item is looked:
            entries.append(ids)
        elif isinstance(item, ast.Slice) and not scope.varies(item):
            entries.append(scope.text(item))
        else:
            raise RefusedError(f"`{scope.text(node)}` is not a plain look-up")
    if len(entries) > value.round_rank:
        raise RefusedError("an index has more items than the run saw dimensions")
    if None in value.slots:
        raise RefusedError(f"`{scope.text(node)}` looks up in a value with a dimension of size 1")
    return _rows_looked_up(scope, value, ids, entries)


def _rows_looked_up(scope: Scope, value: Batched, ids: Batched, entries: Sequence[str | Batched]) -> Batched:
    """`value[entries]` with the numbers of the rounds in the loop's place."""
    loop = scope.loop
    counted = loop.index is not None and loop.stop is not None and not loop.start and loop.step == 1
    if not counted or loop.stop is None or len(value.loops) != 1:
        scope.meet([value, ids])
        return looked_up(value, entries, _numbers(scope, value))
    stem = wrapped(value.text, value.atom)
    if value.cut is not None:
        # The numbers themselves pick the loop's rows: no slice is needed in front of them.
        slices = tuple(":" if d == value.loop else cut for d, cut in enumerate(value.cut.slices))
        stem = wrapped(value.cut.stem, value.cut.atom)
        text = indexed(value.cut.stem, slices, atom=value.cut.atom)
        value = replace(value, text=text, cut=replace(value.cut, slices=slices))
    numbers = f"{scope.torch}.arange({scope.stop_of(loop)}, device={stem}.device)"
    scope.meet([replace(value, text=""), ids])
    return looked_up(value, entries, numbers)


def _gather(scope: Scope, node: ast.Subscript, items: list[ast.expr], looked: ast.expr) -> Batched:
    """`table[ids[:, t]]`, `table[:, ids[t]]`: look-ups along one dimension of a fixed tensor."""
    op = scope.sites.op(node, "aten::index")
    ids = scope.lift(looked)
    cost = scope.sites.cost(node)
    if op is None and cost is not None and isinstance(ids, Batched) and not ids.slots and cost.op_calls("aten::item"):
        # One position as a tensor: indexing reads it and selects.
        op = scope.sites.op(node, "aten::select")
    if op is None or not op.shapes or isinstance(ids, Fixed) or ids.boolean:
        raise RefusedError(f"`{scope.text(node)}` is not a plain look-up")
    for part in (node.value, *(i for i in items if i is not looked)):
        scope.require_pure(part)
    ids = arranged(ids, ids.natural)
    before, extra = items.index(looked), len(op.shapes[0]) - 1
    rank = ids.rank + extra
    return Batched(
        scope.spliced(node, {looked: ids.text}),
        rank,
        tuple(None if d is None else d + before for d in ids.loops),
        (
            *range(before),
            *(None if d is None else d + before for d in ids.slots),
            *range(before + ids.rank, rank),
        ),
    )


def _pick(scope: Scope, node: ast.Subscript, items: list[ast.expr], looked: list[ast.expr]) -> Batched:
    """`table[rows[t], columns[t]]`: what one position for each of several dimensions picks of a fixed tensor."""
    cost = scope.sites.cost(node)
    ranks = (
        [len(o.shapes[0]) for o in cost.ops if o.outermost and o.name == "aten::select" and o.shapes] if cost else []
    )
    before, ids = items.index(looked[0]), [scope.lift(item) for item in looked]
    single = [i for i in ids if isinstance(i, Batched) and i.rank == 1 and not i.slots and not i.boolean]
    together = items[before : before + len(looked)] == looked and len(single) == len(looked)
    # Each position was read on its own: a mask or a list of positions runs other operators.
    reads = cost.op_calls("aten::item") if cost is not None else 0
    if cost is None or not ranks or not together or reads < len(looked) * cost.calls or scope.depth > 1:
        raise RefusedError(f"`{scope.text(node)}` is not a plain look-up")
    for part in (node.value, *(i for i in items if i not in looked)):
        scope.require_pure(part)
    scope.meet(single)
    rank = max(ranks) - len(looked) + 1
    text = scope.spliced(node, {item: value.text for item, value in zip(looked, single, strict=True)})
    return Batched(text, rank, (before,), tuple(d for d in range(rank) if d != before))


def _index_batched(scope: Scope, node: ast.Subscript, value: Batched) -> Batched:
    """An index into a round's value: `row[None]`, `row[:, 0]`, `row[..., :3]`, `row[j]` for an inner loop's `j`."""
    cuts: dict[int, str] = {}
    gone: set[int] = set()
    slots: list[int | None] = []
    loops = [*value.loops]
    second: tuple[int, int] | None = None
    axis = 0
    for item in _expanded(index_items(node), value.round_rank):
        if _is_none(item):
            slots.append(None)
            continue
        slot = value.slots[axis]
        axis += 1
        counted = position_of(scope, item)
        if counted is not None:
            if second is not None or slot is None:
                raise RefusedError("the loop variable is used for several dimensions")
            if loops[counted.depth] is None:
                loops[counted.depth] = slot
            else:
                second = counted.depth, slot
            cuts[slot] = window_of_value(scope, node.value, value, counted, axis - 1)
            slots += [None] if counted.kept else []
        elif isinstance(item, ast.Slice):
            if scope.varies(item):
                raise RefusedError(f"`{scope.text(node)}` is not a plain slice per round")
            cut = scope.text(item)
            if cut != ":" and slot is None:
                raise RefusedError(f"`{scope.text(node)}` cuts a dimension of size 1")
            slots.append(slot)
            if slot is not None:
                cuts[slot] = cut
        elif integer(item) is not None:
            if slot is not None:
                cuts[slot] = scope.text(item)
                gone.add(slot)
        else:
            raise RefusedError(f"`{scope.text(node)}` is not a plain slice per round")
    text = indexed(value.text, [cuts.get(d, ":") for d in range(value.rank)], atom=value.atom)
    left = [d for d in range(value.rank) if d not in gone]
    picked = replace(
        value,
        text=text,
        atom=value.atom or text != value.text,
        cut=value.cut if text == value.text else None,
        rank=len(left),
        loops=tuple(None if d is None else left.index(d) for d in loops),
        slots=tuple(None if s is None else left.index(s) for s in slots),
    )
    return picked if second is None else on_diagonal(picked, second[0], left.index(second[1]))


def selected(scope: Scope, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    """`x.select(1, t)` and `x.narrow(1, t, 1)`, which are `x[:, t]` and `x[:, t : t + 1]`."""
    op, dim = scope.sites.op(node, f"aten::{name}"), integer(operands[1])
    base, item = operands[0], operands[2]
    if op is None or not op.shapes or dim is None:
        raise RefusedError(f"`{scope.text(node)}` has no plain dimension")
    rank = len(op.shapes[0])
    if name == "narrow":
        if integer(operands[3]) != 1:
            raise RefusedError(f"`{scope.text(node)}` is not a plain slice per round")
        item = ast.Slice(item, ast.BinOp(item, ast.Add(), ast.Constant(1)))
    items: list[ast.expr] = [*(ast.Slice() for _ in range(dim % rank)), item]
    part = ast.copy_location(ast.Subscript(base, ast.Tuple(items, ast.Load()), ast.Load()), node)
    if not scope.varies(base):
        scope.require_pure(base)
        return index_of_rank(scope, part, items, rank)
    value = scope.lift(base)
    if isinstance(value, Fixed):
        raise RefusedError(f"`{scope.text(node)}` is not a plain slice per round")
    return _index_batched(scope, part, value)


def gather_along(scope: Scope, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    """`row.gather(0, ids[b])` and `row.index_select(0, ids[b])`."""
    value, ids, dim = scope.lift(operands[0]), scope.lift(operands[2]), integer(operands[1])
    if isinstance(value, Fixed) or isinstance(ids, Fixed) or dim is None:
        raise RefusedError(f"`{scope.text(node)}` does not look up in a round's value by a round's positions")
    at = round_dims(value, [dim])[0]
    if name == "index_select":
        items: list[str | Batched] = [":"] * value.round_rank
        items[at] = ids
        return _rows_looked_up(scope, value, ids, items)
    scope.meet([value, ids])
    if ids.round_rank != value.round_rank:
        raise RefusedError(f"the positions in `{scope.text(node)}` have other dimensions than the value")
    one, other = plain(value, value.round_rank), plain(ids, ids.round_rank)
    return leading(f"{wrapped(one.text, one.atom)}.gather({at + 1}, {other.text})", value.round_rank)


def _numbers(scope: Scope, value: Batched) -> str:
    """The numbers of the rounds, as a tensor beside a round's value."""
    text = wrapped(value.text, value.atom)
    return f"{scope.torch}.arange({text}.size({value.loop}), device={text}.device)"


def _is_none(item: ast.expr) -> bool:
    return isinstance(item, ast.Constant) and item.value is None


def _is_ellipsis(item: ast.expr) -> bool:
    return isinstance(item, ast.Constant) and item.value is Ellipsis
