"""A loop's counter: the positions and slices it picks in a round, and what it covers of an axis in all rounds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forwardlens.rules.batched import Batched, RefusedError, Value
from forwardlens.rules.heads import Element
from forwardlens.rules.lifting.scope import Scope, count_text, key_of, length_text
from forwardlens.rules.loops import Loop, same_axis, same_length, stop_is_count, surely_runs
from forwardlens.rules.windows import marked
from forwardlens.source.tree import argument, dotted, integer, is_atom, range_arguments

_WHOLE_NUMBERS = frozenset({"torch.long", "torch.int64"})


@dataclass(frozen=True)
class Counted:
    """A position that a loop's counter gives: the loop's number, what is added, and whether the axis is kept."""

    depth: int
    shift: int = 0
    kept: bool = False


@dataclass(frozen=True)
class Block:
    """A block of a dimension for every round of a loop: `count` blocks of `width` elements."""

    depth: int
    count: str
    width: str


def window(scope: Scope, loop: Loop, base: ast.expr, axis: int, rank: int | None, shift: int = 0) -> str:
    """The slice of `base` along `axis` that the loop's counter plus `shift` covers: `:` for all of it.

    One that is not known to leave something out is marked: it may turn out to be all of it too.
    """
    if loop.stop is None:
        if shift:
            return _shifted_window(scope, loop, scope.in_caller(base), axis, shift)
        return _enumerated_window(scope, loop, scope.in_caller(base), axis)
    stop, more = _constant_apart(loop.stop)
    if not stop_is_count(stop):
        raise RefusedError(f"`{scope.home.text(loop.stop)}` is not certainly a number of rounds")
    if scope.home.varies(stop):
        raise RefusedError("the number of rounds changes inside the loop")
    start, beyond = loop.start + shift, more + shift
    if shift > 0:
        scope.lengths.exceed(key_of(loop), f"{scope.text(base)}.{axis}")
    if start < 0:
        raise RefusedError(f"the first round reads `{scope.text(base)}` from its end")
    step = f":{loop.step}" if loop.step > 1 else ""
    first = str(start) if start else ""
    if same_axis(scope.sites.tree, replace(loop, stop=stop), scope.in_caller(base), axis, rank):
        if beyond > 0:
            raise RefusedError(f"a round reads beyond the end of `{scope.text(base)}`")
        return f"{first}:{beyond or ''}{step}"
    if beyond < 0:
        raise RefusedError(f"`{scope.home.text(loop.stop)}` is not certainly a number of rounds")
    text = f"{scope.home.text(stop)} + {beyond}" if beyond else scope.home.text(stop)
    simple = not beyond and isinstance(stop, (ast.Name, ast.Constant))
    cut = f"{first}:{text}{step}" if simple or step else f"{first} : {text}".strip()
    whole = not first and not step and not shift
    return marked(key_of(loop), f"{scope.text(base)}.{axis}", cut) if whole else cut


def _enumerated_window(scope: Scope, loop: Loop, base: ast.expr, axis: int) -> str:
    elements = list(loop.elements.values())
    first = elements[0]
    if first.width is not None:
        raise RefusedError("the number of pieces is not written in the source")
    if first.partners:
        return _shortest_window(scope, loop, base, axis, [first, *first.partners])
    if first.pieces is not None:
        return f": {scope.home.text(first.pieces)}"
    counted = first.base
    if same_length(scope.sites.tree, loop, (base, axis), (counted, first.axis)):
        return ":"
    return marked(key_of(loop), f"{ast.unparse(base)}.{axis}", f": {_rounds_text(scope, first)}")


def _rounds_text(scope: Scope, element: Element) -> str:
    """The text of how many slices a loop takes from a tensor."""
    counted = element.base
    if scope.home.varies(counted):
        raise RefusedError("the number of rounds changes inside the loop")
    if isinstance(counted, ast.Call) and isinstance(counted.func, ast.Attribute) and counted.func.attr == "tolist":
        counted = counted.func.value
    return length_text(scope.home, counted, element.axis)


def _shifted_window(scope: Scope, loop: Loop, base: ast.expr, axis: int, shift: int) -> str:
    """What `y[i + 1]` covers in the rounds of `enumerate(x)`."""
    first = next(iter(loop.elements.values()))
    if first.partners or first.pieces is not None or first.width is not None:
        raise RefusedError("the loop counts the slices of another tensor")
    if shift < 0:
        raise RefusedError(f"the first round reads `{scope.text(base)}` from its end")
    if same_length(scope.sites.tree, loop, (base, axis), (first.base, first.axis)):
        raise RefusedError(f"a round reads beyond the end of `{scope.text(base)}`")
    scope.lengths.exceed(key_of(loop), f"{ast.unparse(base)}.{axis}")
    return f"{shift} : {_rounds_text(scope, first)} + {shift}"


def _shortest_window(scope: Scope, loop: Loop, base: ast.expr, axis: int, every: Sequence[Element]) -> str:
    """The rounds of `enumerate(zip(x, y))`, as many as the shorter of the two has slices."""
    counted = [(other.base, other.axis) for other in every if other.cut is None]
    if len(counted) == len(every) and all(
        same_length(scope.sites.tree, loop, (base, axis), other) for other in counted
    ):
        return ":"
    if any(scope.home.varies(other.base) for other in every):
        raise RefusedError("the number of rounds changes inside the loop")
    lengths = dict.fromkeys(count_text(scope.home, other) for other in every)
    return marked(key_of(loop), f"{ast.unparse(base)}.{axis}", f": min({', '.join(lengths)})")


def position_of(scope: Scope, item: ast.expr) -> Counted | None:
    """`t`, `t + 1`, `t - 1` and `t : t + 1` for a loop's counter `t`."""
    if isinstance(item, ast.Slice):
        lower, upper = (None if b is None else position_of(scope, b) for b in (item.lower, item.upper))
        if lower is None or upper is None or item.step is not None or lower.depth != upper.depth:
            return None
        return replace(lower, kept=True) if upper.shift == lower.shift + 1 else None
    name, shift = _constant_apart(item)
    plain = isinstance(name, ast.Name) and name.id not in scope.values
    depth = scope.counters.get(scope.own_name(name.id)) if isinstance(name, ast.Name) and plain else None
    return None if depth is None else Counted(depth, shift)


def block_of(scope: Scope, item: ast.expr) -> Block | None:
    """`h * d : (h + 1) * d`: the counter's block of a dimension."""
    if not isinstance(item, ast.Slice) or item.lower is None or item.upper is None or item.step is not None:
        return None
    if not isinstance(item.lower, ast.BinOp) or not isinstance(item.lower.op, ast.Mult):
        return None
    for counter, width in ((item.lower.left, item.lower.right), (item.lower.right, item.lower.left)):
        counted = position_of(scope, counter)
        if counted is None or counted.shift or scope.varies(width) or not _ends_block(item.upper, counter, width):
            continue
        loop = scope.loops[counted.depth]
        if loop.stop is None or loop.start or loop.step > 1 or scope.home.varies(loop.stop):
            return None
        scope.require_pure(width)
        count, size = (
            home.text(n) if is_atom(n) or isinstance(n, ast.Constant) else f"({home.text(n)})"
            for home, n in ((scope.home, loop.stop), (scope, width))
        )
        return Block(counted.depth, count, size)
    return None


def is_counted(scope: Scope, item: ast.expr) -> bool:
    """Whether an item of an index is a position, or a block, that a loop's counter gives."""
    return position_of(scope, item) is not None or block_of(scope, item) is not None


def is_number(scope: Scope, item: ast.expr) -> bool:
    """Whether an index certainly is a Python number: a literal, or the counter of a loop further out."""
    if integer(item) is not None:
        return True
    if not isinstance(item, ast.Name):
        return False
    for around in scope.sites.tree.loops(scope.loops[0].node):
        if (
            isinstance(around, ast.For)
            and dotted(around.target) == item.id
            and range_arguments(around.iter) is not None
        ):
            return True
    return False


def is_position(scope: Scope, item: ast.expr) -> bool:
    return position_of(scope, item) is not None


def window_of_value(scope: Scope, base: ast.expr, value: Batched, counted: Counted, axis: int) -> str:
    """What a counter covers of a round's value: all of it if the loop certainly counts to its end."""
    loop = scope.loops[counted.depth]
    named = ((scope.text(base), axis), (value.text, value.slots[axis]))
    sizes = {size for text, d in named for size in (f"{text}.size({d})", f"{text}.shape[{d}]")}
    sizes |= {f"len({scope.text(base)})"} if axis == 0 else set[str]()
    if loop.stop is None or loop.start or loop.step > 1 or counted.shift:
        raise RefusedError(f"the loop does not count along `{scope.text(base)}`")
    if scope.home.text(loop.stop) in sizes:
        return ":"
    if scope.home.varies(loop.stop):
        raise RefusedError("the number of rounds changes inside the loop")
    if not stop_is_count(loop.stop):
        raise RefusedError(f"`{scope.home.text(loop.stop)}` is not certainly a number of rounds")
    return f":{scope.home.text(loop.stop)}"


def numbers(scope: Scope, bound: ast.expr, where: str) -> tuple[str, int] | None:
    """The numbers of all rounds for `t` or `t + 1`, and what is still to be added. None for other bounds."""
    counted = position_of(scope, bound)
    loop = scope.loops[counted.depth] if counted is not None else None
    if counted is None or loop is None or counted.kept:
        return None
    if scope.depth > 1:
        raise RefusedError("two loops inside each other")
    if loop.start + counted.shift < 0:
        raise RefusedError("the first round's bound is negative")
    text = arange(scope, loop, scope.stop_of(loop), where)
    if counted.shift in {0, 1}:
        return text, counted.shift
    return f"({text} {'+' if counted.shift > 0 else '-'} {abs(counted.shift)})", 0


def arange(scope: Scope, loop: Loop, stop: str, where: str) -> str:
    """The numbers of all rounds. `arange` refuses a start beyond the stop, which a loop without rounds may have."""
    if not loop.start and loop.step == 1:
        return f"{scope.torch}.arange({stop}{where})"
    if surely_runs(loop):
        step = f", {loop.step}" if loop.step > 1 else ""
        return f"{scope.torch}.arange({loop.start}, {stop}{step}{where})"
    step = f":{loop.step}" if loop.step > 1 else ""
    return f"{scope.torch}.arange({stop}{where})[{loop.start or ''}:{step}]"


def counter_as_tensor(scope: Scope, name: str, node: ast.Call) -> Value:
    """`torch.tensor([t])` and `torch.full((b,), t)`: the counter becomes an `arange`."""
    given = argument(node, 1, "fill_value") if name == "full" else argument(node, 0, "data")
    size = argument(node, 0, "size") if name == "full" else None
    listed = given.elts if isinstance(given, ast.List) and name != "full" else [given]
    item = listed[0] if len(listed) == 1 else None
    counted = position_of(scope, item) if item is not None else None
    others = {k.arg: k.value for k in node.keywords if k.arg not in {"size", "fill_value", "data"}}
    kind = others.pop("dtype", None)
    device = others.pop("device", None)
    plain = counted is not None and not counted.kept and not counted.shift
    if counted is None or not plain or others or (kind is not None and dotted(kind) not in _WHOLE_NUMBERS):
        raise RefusedError(f"`{scope.text(node)}` makes a tensor of more than the counter")
    loop = scope.loops[counted.depth]
    stop = scope.stop_of(loop)
    where = "" if device is None else f", device={scope.text(device)}"
    if device is not None:
        scope.require_pure(device)
    text = arange(scope, loop, stop, where)
    if size is None:
        return Batched(text, 1, scope.only(counted.depth, 0), (None,) * isinstance(given, ast.List))
    entries = size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size]
    if len(entries) != 1 or scope.varies(entries[0]) or isinstance(entries[0], ast.Starred):
        raise RefusedError(f"`{scope.text(node)}` has more than one dimension")
    scope.require_pure(entries[0])
    text = f"{text}[:, None].expand(-1, {scope.text(entries[0])})"
    return Batched(text, 2, scope.only(counted.depth, 0), (1,))


def _constant_apart(node: ast.expr) -> tuple[ast.expr, int]:
    """`n` and -1 for `n - 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        number, other = integer(node.right), integer(node.left)
        if number is not None:
            return node.left, number if isinstance(node.op, ast.Add) else -number
        if other is not None and isinstance(node.op, ast.Add):
            return node.right, other
    return node, 0


def _ends_block(upper: ast.expr, counter: ast.expr, width: ast.expr) -> bool:
    """Whether `upper` is `(h + 1) * d` or `h * d + d` for the counter `h` and the width `d`."""
    h, d = ast.unparse(counter), ast.unparse(width)
    forms = (f"({h} + 1) * {d}", f"{d} * ({h} + 1)", f"(1 + {h}) * {d}", f"{h} * {d} + {d}", f"{d} * {h} + {d}")
    return ast.unparse(upper) in {ast.unparse(ast.parse(form, mode="eval").body) for form in forms}
