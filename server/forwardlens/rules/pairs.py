"""Loops that bring all things together in pairs: two counters below each other, or `itertools.combinations`."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from forwardlens.source.tree import dotted, integer, one_more, range_arguments


@dataclass(frozen=True)
class Pairs:
    """Two names that take every pair of numbers below `count` once, in the order of `torch.triu_indices`.

    `function` is that of torch which makes the numbers of all pairs, `offset` its third argument. `of` is what the
    names take the slices of, None where they are the numbers themselves.
    """

    names: tuple[str, str]
    count: ast.expr
    function: str
    offset: int
    of: ast.expr | None = None


def counted_pairs(outer: ast.expr, outer_iter: ast.expr, inner: ast.expr, inner_iter: ast.expr) -> Pairs | None:
    """`for i in range(n)` around `for j in range(i + 1, n)` or around `for j in range(i)`."""
    outside, inside = range_arguments(outer_iter), range_arguments(inner_iter)
    if not isinstance(outer, ast.Name) or not isinstance(inner, ast.Name) or outside is None or inside is None:
        return None
    if len(outside) != 1 or outer.id == inner.id:
        return None
    (count,) = outside
    names = (outer.id, inner.id)
    if len(inside) == 1:
        beyond = _beyond(inside[0], outer.id)
        return Pairs(names, count, "tril_indices", beyond - 1) if beyond in {0, 1} else None
    beyond, more = _beyond(inside[0], outer.id), one_more(count)
    # The last round of `range(n - 1)` is the last one that has a partner.
    counts = [count] if beyond == 0 or more is None else [count, more]
    same = ast.dump(inside[1]) in {ast.dump(c) for c in counts}
    return Pairs(names, inside[1], "triu_indices", beyond) if beyond in {0, 1} and same else None


def combined_pairs(target: ast.expr, iterable: ast.expr) -> Pairs | None:
    """`for a, b in itertools.combinations(x, 2)`."""
    if not isinstance(iterable, ast.Call) or (dotted(iterable.func) or "").split(".")[-1] != "combinations":
        return None
    if len(iterable.args) != 2 or iterable.keywords or integer(iterable.args[1]) != 2:
        return None
    names = [e.id for e in target.elts if isinstance(e, ast.Name)] if isinstance(target, ast.Tuple) else []
    if len(set(names)) != 2:
        return None
    over = iterable.args[0]
    numbers = range_arguments(over)
    if numbers is not None:
        return Pairs((names[0], names[1]), numbers[0], "triu_indices", 1) if len(numbers) == 1 else None
    return Pairs((names[0], names[1]), over, "triu_indices", 1, over)


def _beyond(node: ast.expr, name: str) -> int | None:
    """1 for `i + 1`, 0 for `i`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = ((node.left, node.right), (node.right, node.left))
        return next((integer(b) for a, b in sides if dotted(a) == name), None)
    return 0 if dotted(node) == name else None
