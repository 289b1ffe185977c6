"""Python's operators: arithmetic, comparisons, and the conditions of a round."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, wrapped
from forwardlens.rules.lifting.broadcasting import broadcast, elementwise, together
from forwardlens.rules.lifting.counters import arange, is_position, position_of
from forwardlens.rules.lifting.scope import Scope
from forwardlens.source.tree import dotted, is_atom


def binary(scope: Scope, node: ast.BinOp) -> Value:
    """`a + b` and the like, but no matrix product."""
    shapes = scope.sites.operands(node)
    operands = (node.left, node.right)
    ranks = [len(s) for s in shapes] if shapes is not None else [None, None]
    # `1 / x` and the like run operators of one operand: with a number there is nothing to broadcast.
    number = any(isinstance(o, ast.Constant) for o in operands) and scope.sites.cost(node) is not None
    values = [scope.lift(o) for o in operands]
    if all(isinstance(v, Fixed) for v in values):
        return same_in_all(scope, node, dict(zip(operands, values, strict=True)))
    if shapes is None and not number:
        raise RefusedError(f"`{scope.text(node)}` is no tensor operation that the run saw")
    result = elementwise(scope, node, operands, values, ranks)
    logical = isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
    return replace(result, boolean=True) if logical and all(_is_boolean(v) for v in values) else result


def same_in_all(scope: Scope, node: ast.expr, values: Mapping[ast.expr, Value]) -> Fixed:
    """`row.size(-1) ** -0.5`: made of what is the same in every round, and so the same itself."""
    number = all(v.rank == 0 for v in values.values())
    return Fixed(scope.spliced(node, {n: v.text for n, v in values.items()}), 0 if number else None, is_atom(node))


def compare(scope: Scope, node: ast.Compare) -> Value:
    """A comparison of tensors, or of one with a loop's counter."""
    shapes = scope.sites.operands(node)
    if shapes is None:
        raise RefusedError(f"`{scope.text(node)}` is no tensor comparison that the run saw")
    operands = (node.left, node.comparators[0])
    if any(is_position(scope, o) for o in operands):
        return compared(scope, node, operands, [len(s) for s in shapes])
    values = [scope.lift(o) for o in operands]
    return replace(elementwise(scope, node, operands, values, [len(s) for s in shapes]), boolean=True)


def compared(scope: Scope, node: ast.expr, operands: tuple[ast.expr, ast.expr], ranks: Sequence[int | None]) -> Value:
    """`t < lengths` or `lengths.gt(t)`: the counter becomes an `arange` on the same device."""
    first = is_position(scope, operands[0])
    other, own = operands[1 if first else 0], position_of(scope, operands[0 if first else 1])
    value = scope.lift(other)
    if own is None or own.shift:
        raise RefusedError(f"`{scope.text(node)}` compares with more than the counter")
    loop = scope.loops[own.depth]
    stop = scope.stop_of(loop)
    if isinstance(value, Fixed):
        rank = max((r for r in ranks if r is not None), default=0)
        if rank == 0 or not value.atom:
            raise RefusedError(f"`{scope.text(other)}` may be a number")
        value = replace(value, rank=rank)
    counter = arange(scope, loop, stop, f", device={wrapped(value.text, value.atom)}.device")
    steps = Batched(counter, 1, scope.only(own.depth, 0), ())
    values = [steps, value] if first else [value, steps]
    return replace(broadcast(scope, node, operands, values), boolean=True)


def condition(scope: Scope, node: ast.expr) -> Batched:
    """What a test asks of each round, as booleans. Raises `RefusedError` for tests that ask no tensor."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return condition(scope, node.func.value)
    if isinstance(node, ast.Call) and dotted(node.func) == "bool" and len(node.args) == 1:
        return condition(scope, node.args[0])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = condition(scope, node.operand)
        return replace(value, text=f"~{wrapped(value.text, value.atom)}", atom=False, cut=None, view=False)
    if isinstance(node, ast.BoolOp):
        asked = [condition(scope, v) for v in node.values]
        scope.meet(asked)
        texts, shape = together(asked)
        sign = " & " if isinstance(node.op, ast.And) else " | "
        return replace(shape, text=sign.join(wrapped(text, atom) for text, atom in texts), atom=False, boolean=True)
    value = scope.lift(node)
    if isinstance(value, Fixed):
        raise RefusedError(f"`{scope.text(node)}` is the same in every round")
    if value.boolean:
        return value
    return replace(value, text=f"{wrapped(value.text, value.atom)} != 0", atom=False, boolean=True, cut=None)


def unary(scope: Scope, node: ast.UnaryOp) -> Value:
    """`-x` and `~mask`."""
    if isinstance(node.op, ast.Not):
        raise RefusedError("`not` asks for one truth value per round")
    value = scope.lift(node.operand)
    result = elementwise(scope, node, (node.operand,), (value,), (None,))
    return replace(result, boolean=isinstance(node.op, ast.Invert) and _is_boolean(value))


def _is_boolean(value: Value) -> bool:
    return isinstance(value, Batched) and value.boolean
