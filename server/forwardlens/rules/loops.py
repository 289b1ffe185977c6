"""What a loop runs over: its variables, its length, and whether that is a whole axis of a tensor."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from forwardlens.rules.evidence import Sites
from forwardlens.rules.heads import Element, Head, head_of, shape_of, size_expression, sliced
from forwardlens.rules.pairs import Pairs, combined_pairs, counted_pairs
from forwardlens.source.dataflow import bindings, definition, names_bound, names_read, overlap
from forwardlens.source.tree import (
    Comprehension,
    Function,
    Tree,
    dotted,
    integer,
    one_more,
    walk,
)

# A name for the size of an axis: the tensor's text and the axis, a literal length, or an attribute that has the number.
AxisSize = tuple[str, int | None]


# How many definitions a length is followed through.
_DEPTH = 4
CREATION = frozenset("zeros ones empty full rand randn new_zeros new_ones new_empty new_full".split())
_LIKE = frozenset({"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"})


@dataclass(frozen=True)
class Loop:
    """A loop in a form that tensors can replace.

    `index` counts from `start` to `stop` in steps of `step`; `stop` is None where the loop takes every slice of a
    tensor (`enumerate(x)`, `for row in x`). `elements` are the variables bound to slices. `backwards` is true if the
    rounds run from the last one to the first. `body` are the statements of a round, without the step of a `while`
    loop's counter, which `counted` gives its first value. `pairs` is given where two loops, one below the other, go
    through all pairs of something; they are one loop then, with the inner one's body. `named` are assignments that
    only give what the loop runs over a name.
    """

    node: ast.For | ast.While | Comprehension
    function: Function
    index: str | None
    start: int
    stop: ast.expr | None
    elements: dict[str, Element]
    step: int = 1
    backwards: bool = False
    body: tuple[ast.stmt, ...] = ()
    counted: ast.stmt | None = None
    pairs: Pairs | None = None
    named: tuple[ast.Assign, ...] = ()

    @property
    def variables(self) -> frozenset[str]:
        paired = self.pairs.names if self.pairs is not None else ()
        parts = {name.partition("[")[0] for name in self.elements}
        return frozenset({*parts, *([self.index] if self.index else []), *paired})


def loop_of(sites: Sites, node: ast.AST) -> Loop | None:
    """Read the head of a loop that runs over numbers or tensors; None for any other.

    That is a `for`, a comprehension with one plain `for`, or a `while` with a counter.
    """
    function = sites.tree.function(node)
    if function is None:
        return None
    if isinstance(node, ast.While):
        return counting(sites.tree, function, node)
    if isinstance(node, ast.For) and not node.orelse:
        paired = _paired(node)
        if paired is not None:
            pairs, body = paired
            return Loop(node, function, None, 0, None, {}, body=(*body,), pairs=pairs)
        head = head_of(sites.tree, function, node, node.target, node.iter)
        return None if head is None else _loop(node, function, head, node.body)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        loops = loops_of(sites, node)
        return loops[0] if len(loops) == 1 else None
    return None


def _paired(node: ast.For) -> tuple[Pairs, list[ast.stmt]] | None:
    """What a loop goes through in pairs, by itself or with the only statement in it, and the body of a round."""
    pairs = combined_pairs(node.target, node.iter)
    if pairs is not None:
        return pairs, node.body
    inner = node.body[0]
    if len(node.body) > 1 or not isinstance(inner, ast.For) or inner.orelse:
        return None
    pairs = counted_pairs(node.target, node.iter, inner.target, inner.iter)
    return None if pairs is None else (pairs, inner.body)


def loops_of(sites: Sites, node: ast.ListComp | ast.GeneratorExp) -> tuple[Loop, ...]:
    """The loops of a comprehension, outermost first. Empty if one of them has another form."""
    function = sites.tree.function(node)
    found: list[Loop] = []
    pairs = _paired_generators(node.generators)
    if pairs is not None and function is not None:
        return (Loop(node, function, None, 0, None, {}, pairs=pairs),)
    for generator in node.generators if function is not None else ():
        if function is None or generator.ifs or generator.is_async:
            return ()
        head = head_of(sites.tree, function, node, generator.target, generator.iter)
        if head is None:
            return ()
        found.append(_loop(node, function, head, ()))
    return tuple(found)


def _loop(node: ast.For | Comprehension, function: Function, head: Head, body: Sequence[ast.stmt]) -> Loop:
    return Loop(
        node,
        function,
        head.index,
        head.start,
        head.stop,
        head.elements,
        head.step,
        head.backwards,
        (*body,),
        named=head.named,
    )


def _paired_generators(generators: Sequence[ast.comprehension]) -> Pairs | None:
    if any(g.ifs or g.is_async for g in generators) or len(generators) > 2:
        return None
    outer, inner = generators[0], generators[-1]
    if inner is outer:
        return combined_pairs(outer.target, outer.iter)
    return counted_pairs(outer.target, outer.iter, inner.target, inner.iter)


def counting(tree: Tree, function: Function, node: ast.While) -> Loop | None:
    """`t = 0`, then `while t < n:` with `t += 1` as its last statement and no other change of `t`."""
    test = node.test
    if node.orelse or not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.left, ast.Name):
        return None
    name, bound = test.left.id, test.comparators[0]
    stop = bound if isinstance(test.ops[0], ast.Lt) else one_more(bound) if isinstance(test.ops[0], ast.LtE) else None
    if stop is None or not _steps(node.body[-1], name):
        return None
    if any(name in names_bound(statement) for statement in node.body[:-1]):
        return None
    block = tree.block(node)
    before = next((s for s in reversed(block[: block.index(node)]) if name in names_bound(s) | names_read(s)), None)
    if not isinstance(before, ast.Assign) or [dotted(t) for t in before.targets] != [name]:
        return None
    start = integer(before.value)
    if start is None or start < 0:
        return None
    return Loop(node, function, name, start, stop, {}, body=(*node.body[:-1],), counted=before)


def _steps(statement: ast.stmt, name: str) -> bool:
    """`t += 1` or `t = t + 1`."""
    if isinstance(statement, ast.AugAssign):
        return dotted(statement.target) == name and isinstance(statement.op, ast.Add) and integer(statement.value) == 1
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(statement, ast.Assign) or [dotted(t) for t in statement.targets] != [name]:
        return False
    return (
        isinstance(value, ast.BinOp)
        and isinstance(value.op, ast.Add)
        and {(dotted(value.left), integer(value.right)), (dotted(value.right), integer(value.left))} >= {(name, 1)}
    )


@dataclass(frozen=True)
class _Sizes:
    """Follows the lengths of axes through a function, up to a loop in it."""

    tree: Tree
    function: Function
    loop: ast.AST

    def of(self, node: ast.expr, depth: int = 0) -> AxisSize | None:
        """The axis whose length an integer expression is: `("x", 1)` for `x.size(1)` or `t` of `b, t = x.shape`."""
        if depth > _DEPTH:
            return None
        value = integer(node)
        if value is not None:
            return ("", value)
        found = size_expression(node)
        if found is not None:
            return self.axis(*found, node, depth)
        if isinstance(node, ast.Attribute) and dotted(node) is not None and self._is_kept(dotted(node) or ""):
            return (dotted(node) or "", None)
        if isinstance(node, ast.Name):
            statement = definition(self.tree, self.function, node.id)
            return None if statement is None else self._defined(statement, node.id, depth)
        return None

    def axis(self, base: ast.expr, axis: int, where: ast.AST, depth: int = 0) -> AxisSize | None:
        """The length of `base` along `axis`, followed through `zeros(n, ...)` and `zeros_like(x)`.

        None unless `base` keeps its value from `where` until the loop has ended.
        """
        place = dotted(base)
        if place is None:
            return None
        if "." in place:
            return (place, axis) if self._is_kept(place) else None
        statement = definition(self.tree, self.function, place)
        made = self._created(statement.value, axis, depth) if statement is not None else None
        if made is not None:
            return made
        if any(self._between(store, where) for store in bindings(self.function, place)):
            return None
        return (place, axis)

    def _is_kept(self, place: str) -> bool:
        """Whether the function gives an attribute no other value."""
        stores = (n for n in walk(self.function) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
        return not any(overlap(dotted(n) or "", place) for n in stores)

    def _defined(self, statement: ast.Assign, name: str, depth: int) -> AxisSize | None:
        """The axis behind `n` of `n = x.size(1)` or `b, n = x.shape`."""
        if len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            return self.of(statement.value, depth + 1)
        if not isinstance(target, ast.Tuple) or any(isinstance(e, ast.Starred) for e in target.elts):
            return None
        position = next((i for i, e in enumerate(target.elts) if isinstance(e, ast.Name) and e.id == name), None)
        if position is None:
            return None
        if isinstance(statement.value, ast.Tuple) and len(statement.value.elts) == len(target.elts):
            return self.of(statement.value.elts[position], depth + 1)
        base = leading_shape(statement.value)
        return None if base is None else self.axis(base, position, statement, depth)

    def _created(self, value: ast.expr, axis: int, depth: int) -> AxisSize | None:
        if depth > _DEPTH:
            return None
        element = sliced(value)
        if element.base is not value and axis == 0 and element.cut is None:
            return self.axis(element.base, element.axis, value, depth + 1)
        if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute):
            return None
        name = value.func.attr
        if name in _LIKE and value.args:
            return self.axis(value.args[0], axis, value, depth + 1)
        if name == "clone":
            return self.axis(value.func.value, axis, value, depth + 1)
        if name not in CREATION or not value.args or axis < 0:
            return None
        first = value.args[0]
        base = leading_shape(first)
        if base is not None:
            return self.axis(base, axis, value, depth + 1)
        sizes = list(first.elts) if isinstance(first, (ast.Tuple, ast.List)) else value.args
        if axis >= len(sizes) or any(isinstance(size, ast.Starred) for size in sizes[: axis + 1]):
            return None
        return self.of(sizes[axis], depth + 1)

    def _between(self, store: ast.AST, where: ast.AST) -> bool:
        """Whether a binding may run between `where` and the end of the loop."""
        if isinstance(store, ast.arg):
            return False
        if not isinstance(where, (ast.expr, ast.stmt)):
            return True
        statement = next(a for a in self.tree.ancestors(store) if isinstance(a, ast.stmt))
        here = self.tree.statement(where)
        if set(self.tree.loops(statement)) & set(self.tree.loops(here)):
            return True
        if statement is here:
            return not isinstance(here, ast.Assign)
        return here.lineno < statement.lineno <= (getattr(self.loop, "end_lineno", None) or statement.lineno)


def leading_shape(node: ast.expr) -> ast.expr | None:
    """`x` for `x.shape` and `x.shape[:2]`, whose entries are the lengths of x from the first axis on."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return shape_of(node.value) if node.slice.lower is None and node.slice.step is None else None
    return shape_of(node)


def same_axis(tree: Tree, loop: Loop, base: ast.expr, axis: int, rank: int | None) -> bool:
    """Whether the loop certainly counts to the length of `base` along `axis`."""
    if loop.stop is None:
        return False

    def normal(size: tuple[str | None, int | None]) -> tuple[str | None, int | None]:
        place, number = size
        return (place, number + rank) if place and number is not None and number < 0 and rank is not None else size

    direct = size_expression(loop.stop)
    if direct is not None and dotted(base) is not None:
        # Asked at the head of the loop itself, whatever the name was bound to before.
        same = normal((dotted(direct[0]), direct[1])) == normal((dotted(base), axis))
    else:
        same = False
    if same:
        return True
    sizes = _Sizes(tree, loop.function, loop.node)
    one, other = sizes.of(loop.stop), sizes.axis(base, axis, loop.stop)
    return one is not None and other is not None and normal(one) == normal(other)


def same_length(tree: Tree, loop: Loop, one: tuple[ast.expr, int], other: tuple[ast.expr, int]) -> bool:
    """Whether two axes of tensors certainly have the same length at the head of the loop."""
    if dotted(one[0]) is not None and (dotted(one[0]), one[1]) == (dotted(other[0]), other[1]):
        return True
    sizes = _Sizes(tree, loop.function, loop.node)
    where = loop.node.iter if isinstance(loop.node, ast.For) else loop.node
    first, second = (sizes.axis(base, axis, where) for base, axis in (one, other))
    return first is not None and first == second


def stop_is_count(node: ast.expr) -> bool:
    """Whether a loop bound may also be written as a slice's: never negative in a program that works."""
    literal = integer(node)
    if literal is not None:
        return literal >= 0
    return size_expression(node) is not None or isinstance(node, (ast.Name, ast.Attribute))


def surely_runs(loop: Loop) -> bool:
    """Whether the source itself says that a loop has at least one round."""
    stop = integer(loop.stop)
    return stop is not None and stop > loop.start


@lru_cache(maxsize=1024)
def leaves_early(loop: ast.AST) -> bool:
    """Whether a round may end the loop or hand something out. One that is cut short by `continue` goes on."""
    return any(isinstance(n, (ast.Break, ast.Return, ast.Yield, ast.YieldFrom, ast.Await)) for n in walk(loop))


def ends_early(loop: ast.AST) -> bool:
    """Whether a round may end the loop. One that hands something out goes on."""
    return any(isinstance(n, (ast.Break, ast.Return, ast.Await)) for n in walk(loop))


@lru_cache(maxsize=1024)
def skips_rounds(loop: ast.AST) -> bool:
    """Whether a round may be cut short by `continue`."""
    return any(isinstance(n, ast.Continue) for n in walk(loop))
