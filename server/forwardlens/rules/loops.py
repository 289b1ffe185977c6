"""What a loop runs over: its variables, its length, and whether that is a whole axis of a tensor."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from forwardlens.rules.evidence import Sites
from forwardlens.source.dataflow import (
    METADATA,
    aliases,
    bindings,
    changes,
    definition,
    is_inplace,
    names_bound,
    overlap,
)
from forwardlens.source.tree import Comprehension, Function, Tree, argument, dotted, integer

# A name for the size of an axis: the tensor's text and the axis, or a literal length.
AxisSize = tuple[str, int]


@dataclass(frozen=True)
class Element:
    """A loop variable that takes the slices of `base` along `axis` (None: along one that is only known by rank)."""

    base: ast.expr
    axis: int
    partner: ast.expr | None = None


@dataclass(frozen=True)
class Loop:
    """A loop in a form that tensors can replace.

    `index` counts from `start` to `stop` in steps of one; `stop` is None where the loop takes every slice of a
    tensor (`enumerate(x)`, `for row in x`). `elements` are the variables bound to slices.
    """

    node: ast.For | Comprehension
    function: Function
    index: str | None
    start: int
    stop: ast.expr | None
    elements: dict[str, Element]

    @property
    def variables(self) -> frozenset[str]:
        return frozenset({*self.elements, *([self.index] if self.index else [])})


def loop_of(sites: Sites, node: ast.AST) -> Loop | None:
    """Read the head of a `for` or of a comprehension with one plain `for`; None for any other loop."""
    function = sites.tree.function(node)
    if function is None:
        return None
    if isinstance(node, ast.For) and not node.orelse:
        target, iterable = node.target, node.iter
    elif isinstance(node, (ast.ListComp, ast.GeneratorExp)) and len(node.generators) == 1:
        generator = node.generators[0]
        if generator.ifs or generator.is_async:
            return None
        target, iterable = generator.target, generator.iter
    else:
        return None
    head = _head(target, iterable)
    return None if head is None else Loop(node, function, *head)


_Head = tuple[str | None, int, ast.expr | None, dict[str, Element]]


def _head(target: ast.expr, iterable: ast.expr) -> _Head | None:
    called = iterable.func.id if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) else None
    if isinstance(iterable, ast.Call) and called == "range" and not iterable.keywords:
        return _range(target, iterable.args)
    if isinstance(iterable, ast.Call) and called == "enumerate" and len(iterable.args) == 1 and not iterable.keywords:
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(target.elts[0], ast.Name):
            elements = _elements(target.elts[1], iterable.args[0])
            return None if elements is None else (target.elts[0].id, 0, None, elements)
        return None
    elements = _elements(target, iterable)
    return None if elements is None else (None, 0, None, elements)


def _range(target: ast.expr, args: list[ast.expr]) -> _Head | None:
    if not isinstance(target, ast.Name) or not 1 <= len(args) <= 2:
        return None
    start = integer(args[0]) if len(args) == 2 else 0
    return None if start is None or start < 0 else (target.id, start, args[-1], {})


def _elements(target: ast.expr, iterable: ast.expr) -> dict[str, Element] | None:
    """The variables of `for row in x`, `x.unbind(1)`, `torch.unbind(x, dim=1)`, `zip(x, y)`."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id == "zip":
        return _zip_of_two(target, iterable) if all(k.arg == "strict" for k in iterable.keywords) else None
    if not isinstance(target, ast.Name):
        return None
    base, axis = _sliced(iterable)
    return {target.id: Element(base, axis)}


def _zip_of_two(target: ast.expr, call: ast.Call) -> dict[str, Element] | None:
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or len(call.args) != 2:
        return None
    (left, left_axis), (right, right_axis) = (_sliced(arg) for arg in call.args)
    first, second = target.elts
    if not isinstance(first, ast.Name) or not isinstance(second, ast.Name) or first.id == second.id:
        return None
    # Where the two lengths differ the shorter one decides, so each is cut to the other. Only axis 0 has a `len`.
    if left_axis or right_axis:
        return None
    return {first.id: Element(left, 0, right), second.id: Element(right, 0, left)}


def _sliced(iterable: ast.expr) -> tuple[ast.expr, int]:
    """The tensor and the axis that an iteration takes slices of."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute) and iterable.func.attr == "unbind":
        function = dotted(iterable.func.value) == "torch"
        base = argument(iterable, 0, "input") if function else iterable.func.value
        dim = argument(iterable, 1 if function else 0, "dim")
        axis = 0 if dim is None else integer(dim)
        if base is not None and axis is not None:
            return base, axis
    return iterable, 0


def axis_size(tree: Tree, function: Function, node: ast.expr, seen: int = 0) -> AxisSize | None:
    """Which axis length an integer expression stands for: `("x", 1)` for `x.size(1)` or `t` of `b, t = x.shape`."""
    if seen > 4:
        return None
    value = integer(node)
    if value is not None:
        return ("", value)
    found = _size_expression(node)
    if found is not None:
        base, axis = found
        return _origin(tree, function, base, axis, node, seen)
    if isinstance(node, ast.Name):
        statement = definition(tree, function, node.id)
        if statement is None:
            return None
        return _from_definition(tree, function, statement, node.id, seen)
    return None


def _size_expression(node: ast.expr) -> tuple[ast.expr, int] | None:
    """`x.size(1)`, `x.shape[1]`, `len(x)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        axis = integer(argument(node, 0, "dim"))
        return None if axis is None else (node.func.value, axis)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        return node.args[0], 0
    if isinstance(node, ast.Subscript):
        axis, base = integer(node.slice), shape_of(node.value)
        return None if axis is None or base is None else (base, axis)
    return None


def shape_of(node: ast.expr) -> ast.expr | None:
    """`x` for `x.shape` and `x.size()`."""
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        return node.func.value if not node.args and not node.keywords else None
    return None


def _from_definition(tree: Tree, function: Function, statement: ast.Assign, name: str, seen: int) -> AxisSize | None:
    """The axis behind `n` of `n = x.size(1)` or `b, n = x.shape`."""
    if len(statement.targets) != 1:
        return None
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        return axis_size(tree, function, statement.value, seen + 1)
    if not isinstance(target, ast.Tuple) or any(isinstance(e, ast.Starred) for e in target.elts):
        return None
    position = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Name) and e.id == name), None)
    if position is None:
        return None
    if isinstance(statement.value, ast.Tuple) and len(statement.value.elts) == len(target.elts):
        return axis_size(tree, function, statement.value.elts[position], seen + 1)
    base = shape_of(statement.value)
    if base is None and isinstance(statement.value, ast.Subscript):
        cut = statement.value.slice
        from_start = isinstance(cut, ast.Slice) and cut.lower is None and cut.step is None
        base = shape_of(statement.value.value) if from_start else None
    return None if base is None else _origin(tree, function, base, position, statement, seen)


def _origin(tree: Tree, function: Function, base: ast.expr, axis: int, where: ast.AST, seen: int) -> AxisSize | None:
    """The size of `base` along `axis`, followed through `zeros(n, ...)` and `zeros_like(x)`.

    None unless `base` keeps its value from `where` to the end of the function.
    """
    place = dotted(base)
    if place is None:
        return None
    if "." not in place:
        statement = definition(tree, function, place)
        made = _creation_size(tree, function, statement.value, axis, seen) if statement is not None else None
        if made is not None:
            return made
        if any(_later(tree, store, where) for store in bindings(function, place)):
            return None
    elif any(
        isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store) and dotted(n) == place for n in ast.walk(function)
    ):
        return None
    return (place, axis)


def _later(tree: Tree, store: ast.AST, where: ast.AST) -> bool:
    """Whether a binding can come after `where`: it stands below it, or both are in a loop that comes around."""
    if isinstance(store, ast.arg):
        return False
    if not isinstance(where, (ast.expr, ast.stmt)):
        return True
    statement = next(a for a in tree.ancestors(store) if isinstance(a, ast.stmt))
    here = tree.statement(where)
    if statement is here:
        return not isinstance(here, ast.Assign)
    return statement.lineno > here.lineno or bool(set(tree.loops(statement)) & set(tree.loops(here)))


_CREATION = {"zeros": 0, "ones": 0, "empty": 0, "full": 0, "rand": 0, "randn": 0, "new_zeros": 0, "new_empty": 0}
_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"})


def _creation_size(tree: Tree, function: Function, value: ast.expr, axis: int, seen: int) -> AxisSize | None:
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or seen > 4:
        return None
    name = value.func.attr
    if name in _LIKE and value.args:
        return _origin(tree, function, value.args[0], axis, value, seen + 1)
    if name == "clone":
        return _origin(tree, function, value.func.value, axis, value, seen + 1)
    if name not in _CREATION or not value.args or axis < 0:
        return None
    first = value.args[0]
    sizes = list(first.elts) if isinstance(first, (ast.Tuple, ast.List)) else value.args
    if isinstance(first, (ast.Tuple, ast.List)) or (shape_of(first) is None and not isinstance(first, ast.Subscript)):
        if axis < len(sizes) and not any(isinstance(s, ast.Starred) for s in sizes[: axis + 1]):
            return axis_size(tree, function, sizes[axis], seen + 1)
        return None
    base = shape_of(first)
    if base is None and isinstance(first, ast.Subscript) and isinstance(first.slice, ast.Slice):
        base = shape_of(first.value) if first.slice.lower is None and first.slice.step is None else None
    return None if base is None else _origin(tree, function, base, axis, value, seen + 1)


def same_axis(tree: Tree, function: Function, stop: ast.expr, base: ast.expr, axis: int, rank: int | None) -> bool:
    """Whether `stop` certainly is the length of `base` along `axis` while the loop runs."""
    one = axis_size(tree, function, stop)
    other = _origin(tree, function, base, axis, stop, 0)
    if one is None or other is None:
        return False

    def normal(size: AxisSize) -> AxisSize:
        place, number = size
        return (place, number + rank) if place and number < 0 and rank is not None else size

    return normal(one) == normal(other)


def stop_is_count(node: ast.expr) -> bool:
    """Whether a loop bound may also be written as a slice's: never negative in a program that works."""
    literal = integer(node)
    if literal is not None:
        return literal >= 0
    return _size_expression(node) is not None or isinstance(node, (ast.Name, ast.Attribute))


def leaves_early(loop: ast.AST) -> bool:
    """Whether a round may end the loop or be cut short."""
    return any(
        isinstance(n, (ast.Break, ast.Continue, ast.Return, ast.Yield, ast.YieldFrom, ast.Await))
        for n in ast.walk(loop)
    )


Relation = Literal["independent", "carried", "unknown"]


def relation(sites: Sites, loop: ast.AST, node: ast.expr | ast.stmt) -> Relation:
    """Whether what `node` computes in a round depends on what an earlier round computed.

    "carried" if it reads a name that the loop binds later or under a condition, or memory that the loop changes at
    another place than the one `node` itself writes; "unknown" if the loop's form does not tell.
    """
    function = sites.tree.function(loop)
    if function is None:
        return "unknown"
    if not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        return "independent"
    reads = _inputs(sites.tree, loop, node, frozenset())
    if reads is None:
        return "carried"
    own = {sites.tree.text(t) for t in _written_slices(node)}
    # A slice under a name is the round's own only if the loop gives it.
    targets = names_bound(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set[str]()
    for changed, place in changes(loop):
        if place is None:
            return "unknown"
        written = _slice_written(changed)
        if isinstance(written, ast.Name) and written.id not in targets:
            written = None
        if written is not None and sites.tree.text(written) in own:
            continue
        if _is_list_append(changed):
            if place in {name for name, _ in reads}:
                return "carried"
            continue
        shared = aliases(function, place)
        text = sites.tree.text(written) if written is not None else None
        for name, read in reads:
            if any(overlap(name, s) for s in shared) and not _same_slice(sites.tree, read, text):
                return "carried"
    return "independent"


def _written_slices(node: ast.AST) -> list[ast.Subscript | ast.Name]:
    return [written for n in ast.walk(node) if (written := _slice_written(n)) is not None]


def _slice_written(node: ast.AST) -> ast.Subscript | ast.Name | None:
    """`x[:, t]` where it is assigned to, augmented, or changed by a method like `masked_fill_`; `row` likewise."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
        return node.target
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and is_inplace(node.func.attr):
        return node.func.value if isinstance(node.func.value, (ast.Subscript, ast.Name)) else None
    return node if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else None


def _is_list_append(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"


def _same_slice(tree: Tree, read: ast.AST, text: str | None) -> bool:
    """Whether a read is of the same slice that is written, or of a fact about the tensor only."""
    parent = tree.parent(read)
    if isinstance(parent, ast.Attribute) and parent.attr in METADATA:
        return True
    if isinstance(read, ast.Name) and read.id == text:
        return True
    return isinstance(parent, ast.Subscript) and parent.value is read and tree.text(parent) == text


def _inputs(
    tree: Tree, loop: ast.For | ast.AsyncFor | ast.While, node: ast.expr | ast.stmt, seen: frozenset[str]
) -> list[tuple[str, ast.AST]] | None:
    """The places from outside the loop that `node` reads, through the names of the round. None if one is carried."""
    targets = names_bound(loop.target) if isinstance(loop, (ast.For, ast.AsyncFor)) else set[str]()
    found: list[tuple[str, ast.AST]] = []
    statement = tree.statement(node)
    for read in ast.walk(node):
        if not isinstance(read, (ast.Name, ast.Attribute)) or not isinstance(read.ctx, ast.Load):
            continue
        place = dotted(read)
        if place is None or (
            isinstance(tree.parent(read), ast.Attribute) and isinstance(read, ast.Name) and read.id == "self"
        ):
            continue
        name = place.split(".")[0]
        if name in targets or name not in {n for s in loop.body for n in names_bound(s)}:
            found.append((place, read))
            continue
        source = _definition_in_round(tree, loop, statement, name)
        if source is None or name in seen:
            return None
        inner = _inputs(tree, loop, source, seen | {name})
        if inner is None:
            return None
        found += inner
    return found


def _definition_in_round(
    tree: Tree, loop: ast.For | ast.AsyncFor | ast.While, statement: ast.stmt, name: str
) -> ast.expr | None:
    """What a name of the round was last bound to before `statement`, if that happens in every round."""
    path = [statement, *(a for a in tree.ancestors(statement) if isinstance(a, ast.stmt))]
    for inner in path:
        if inner is loop:
            return None
        block = tree.block(inner)
        for earlier in reversed(block[: block.index(inner)]):
            if name in names_bound(earlier):
                single = isinstance(earlier, ast.Assign) and all(
                    isinstance(t, (ast.Name, ast.Tuple)) for t in earlier.targets
                )
                return earlier.value if single and isinstance(earlier, ast.Assign) else None
    return None
