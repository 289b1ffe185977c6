"""Views of a round's value: they only change which of its dimensions stands where."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from forwardlens.rules.batched import (
    Batched,
    Fixed,
    RefusedError,
    Value,
    arranged,
    indexed,
    live_loops,
    seen_in,
    spread,
    wrapped,
)
from forwardlens.rules.heads import shape_of
from forwardlens.rules.lifting.scope import Scope
from forwardlens.rules.reducing import leading
from forwardlens.source.tree import integer

KNOWN_VIEWS = frozenset({"unsqueeze", "squeeze", "transpose", "t", "view", "reshape", "expand"})


def listed(given: Sequence[ast.expr]) -> Sequence[ast.expr]:
    """The numbers of `view(2, 3)` and of `view((2, 3))`."""
    return given[0].elts if len(given) == 1 and isinstance(given[0], (ast.Tuple, ast.List)) else given


def flattens(name: str, operands: Sequence[ast.expr]) -> bool:
    """Whether a call makes a vector of a round's value."""
    sizes = [integer(o) for o in operands[1:]]
    return sizes in ([], [0]) if name == "flatten" else sizes == [-1]


def flat(scope: Scope, node: ast.Call, operand: ast.expr) -> Value:
    value = scope.lift(operand)
    if isinstance(value, Fixed) or scope.may_write_to(value):
        raise RefusedError(f"`{scope.text(node)}` may or may not be a copy of what the loop writes to")
    live = live_loops([value])
    put = seen_in(value, live)
    own = [s for s in put.slots if s is not None]
    if len(own) < 2:
        slots = tuple(own) or (None,)
        return replace(value, slots=slots, cut=None)
    put = arranged(put, put.round_rank)
    count = len(put.loops)
    text = f"{wrapped(put.text, put.atom)}.flatten({count})"
    return spread(leading(text, 1, count), live, scope.depth)


def _view_value(scope: Scope, operands: Sequence[ast.expr]) -> Batched:
    value = scope.lift(operands[0])
    if isinstance(value, Fixed) or any(scope.varies(o) for o in operands[1:]):
        raise RefusedError("the shape changes from round to round")
    return value


def view(scope: Scope, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    match name:
        case "unsqueeze":
            return _unsqueeze(scope, node, operands)
        case "squeeze":
            return _squeeze(scope, node, operands)
        case "transpose" | "t":
            return _transpose(scope, node, operands)
        case "expand":
            return _expand(scope, node, operands)
        case _:
            return _reshape(scope, node, operands)


def _unsqueeze(scope: Scope, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    value = _view_value(scope, operands)
    dim = integer(operands[1]) if len(operands) == 2 else None
    if dim is None or not -value.round_rank - 1 <= dim <= value.round_rank:
        raise RefusedError(f"`{scope.text(node)}` has no plain dimension")
    at = dim if dim >= 0 else dim + value.round_rank + 1
    return replace(value, slots=(*value.slots[:at], None, *value.slots[at:]))


def _squeeze(scope: Scope, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    value = _view_value(scope, operands)
    dim = integer(operands[1]) if len(operands) == 2 else None
    if dim is None or not -value.round_rank <= dim < value.round_rank or value.slots[dim] is not None:
        raise RefusedError(f"`{scope.text(node)}` may drop a dimension that is not 1")
    at = dim % value.round_rank
    return replace(value, slots=(*value.slots[:at], *value.slots[at + 1 :]))


def _reshape(scope: Scope, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    """`view(-1, 1, 1)` and the like, which only add dimensions of size 1."""
    value = _view_value(scope, operands)
    sizes = listed(operands[1:])
    own = [s for s in value.slots if s is not None]
    others = [s for s in sizes if integer(s) != 1]
    if any(isinstance(s, ast.Starred) for s in sizes) or not sizes:
        raise RefusedError(f"`{scope.text(node)}` has no plain shape")
    if len(others) != len(own) or len(own) > 1:
        return _reshaped(scope, node, value, sizes)
    left = iter(own)
    return replace(value, slots=tuple(None if integer(s) == 1 else next(left) for s in sizes))


def _reshaped(scope: Scope, node: ast.Call, value: Batched, sizes: Sequence[ast.expr]) -> Batched:
    """Another shape for each round's elements, behind the dimensions of the loops."""
    if scope.may_write_to(value):
        raise RefusedError(f"`{scope.text(node)}` may or may not be a copy of what the loop writes to")
    if None in value.slots or None in value.loops:
        raise RefusedError(f"`{scope.text(node)}` reshapes a round's value")
    for size in sizes:
        scope.require_pure(size)
    put = arranged(value, value.round_rank)
    depth = len(put.loops)
    flat = put.text if put.round_rank == 1 else f"{wrapped(put.text, put.atom)}.flatten({depth})"
    shape = ", ".join(scope.text(size) for size in sizes)
    text = f"{wrapped(flat, put.atom or flat != put.text)}.unflatten({depth}, ({shape}{',' * (len(sizes) == 1)}))"
    return leading(text, len(sizes), depth)


def _transpose(scope: Scope, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    value = _view_value(scope, operands)
    dims = [integer(o) for o in operands[1:]] or [0, 1]
    slots = list(value.slots)
    if len(dims) != 2 or any(d is None or not -len(slots) <= d < len(slots) for d in dims):
        raise RefusedError(f"`{scope.text(node)}` has no plain dimension")
    one, other = (d for d in dims if d is not None)
    slots[one], slots[other] = slots[other], slots[one]
    return replace(value, slots=tuple(slots))


def _expand(scope: Scope, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    """`row.expand(n, -1)` and `row.expand(y.shape)`, behind the dimensions of the loops."""
    value = _view_value(scope, operands)
    sizes = listed(operands[1:])
    for size in sizes:
        scope.require_pure(size)
    whole = len(sizes) == 1 and shape_of(sizes[0]) is not None
    rank = _rank_beside(scope, node) if whole else len(sizes)
    live = live_loops([value])
    put = arranged(seen_in(value, live), value.round_rank)
    depth, more = len(put.loops), rank - value.round_rank
    if more < 0 or any(isinstance(size, ast.Starred) for size in sizes):
        raise RefusedError(f"`{scope.text(node)}` has no plain shape")
    grown = indexed(put.text, [*[":"] * depth, *["None"] * more, *[":"] * value.round_rank], atom=put.atom)
    shape = [f"*{scope.text(sizes[0])}"] if whole else [scope.text(size) for size in sizes]
    text = f"{wrapped(grown, put.atom or more > 0)}.expand({', '.join(['-1'] * depth + shape)})"
    return spread(replace(leading(text, rank, depth), view=value.view), live, scope.depth)


def _rank_beside(scope: Scope, node: ast.Call) -> int:
    """How many dimensions a value has that an operator takes beside another."""
    parent = scope.sites.tree.parent(node)
    shapes = scope.sites.operands(parent) if isinstance(parent, (ast.BinOp, ast.Compare)) else None
    if shapes is None or len(shapes[0]) != len(shapes[1]):
        raise RefusedError(f"the run does not tell how many dimensions `{scope.text(node)}` has")
    return len(shapes[0])
