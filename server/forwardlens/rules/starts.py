"""What a name holds in front of a statement."""

from __future__ import annotations

import ast

from forwardlens.rules.evidence import Sites
from forwardlens.rules.loops import CREATION
from forwardlens.source.dataflow import names_bound
from forwardlens.source.tree import argument, dotted, unpacked


def is_none_before(sites: Sites, loop: ast.stmt, name: str) -> bool:
    """Whether the last thing in front of the loop that binds `name` sets it to None."""
    start = value_before(sites, loop, name)
    return isinstance(start, ast.Constant) and start.value is None


def value_before(sites: Sites, loop: ast.stmt, name: str) -> ast.expr | None:
    """What the last thing in front of the loop that binds `name` gives it, also beside others: `x, n = y, 0`."""
    start = last_binding(sites, loop, name)
    if isinstance(start, ast.AnnAssign):
        return start.value if dotted(start.target) == name else None
    if not isinstance(start, ast.Assign):
        return None
    given = [value for target in start.targets for value in _given(target, start.value, name)]
    return given[0] if len(given) == 1 else None


def last_binding(sites: Sites, statement: ast.stmt, name: str) -> ast.stmt | None:
    """What binds `name` last in front of a statement; None where that is unclear.

    It may stand in front of the branches and loops around the statement, or be the loop that gives `name` an element.
    """
    inner = statement
    while True:
        block = sites.tree.block(inner)
        for earlier in reversed(block[: block.index(inner)]):
            if name in names_bound(earlier):
                return earlier
        above = sites.tree.parent(inner)
        if isinstance(above, ast.For) and inner in above.body and name in names_bound(above.target):
            return above
        if not isinstance(above, (ast.If, ast.With, ast.For, ast.While)):
            return None
        # What stands behind the statement in a loop ran in the round before.
        before = [above.test] if isinstance(above, ast.If) else above.items if isinstance(above, ast.With) else [above]
        if any(name in names_bound(part) for part in before):
            return None
        inner = above


def _given(target: ast.expr, value: ast.expr, name: str) -> list[ast.expr | None]:
    """What a target gives `name`: None for `name` in `a, b = pair`."""
    if isinstance(target, (ast.Tuple, ast.List)):
        parts = unpacked(target, value)
        if parts is not None:
            return [given for t, v in parts for given in _given(t, v, name)]
        return [None] if name in names_bound(target) else []
    return [value] if dotted(target) == name else []


def rank_made(value: ast.expr) -> int:
    """The dimensions that a tensor has for certain by how it is made: 2 for `torch.empty((n, 0))` and `x[:, :0]`."""
    if isinstance(value, ast.Subscript) and isinstance(value.slice, ast.Tuple):
        return sum(isinstance(item, ast.Slice) for item in value.slice.elts)
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr not in CREATION:
        return 0
    first = argument(value, 0, "size")
    if isinstance(first, (ast.Tuple, ast.List)):
        return sum(not isinstance(size, ast.Starred) for size in first.elts)
    # `full` takes what it fills with after the sizes.
    sizes = [] if value.func.attr in {"full", "new_full"} else value.args
    return sum(not isinstance(size, ast.Starred) for size in sizes)
