"""Operands of a round side by side: which dimensions meet, and the text in which they do so for all rounds."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from forwardlens.rules.batched import (
    Batched,
    Fixed,
    RefusedError,
    Value,
    common_right,
    fixed_text,
    live_loops,
    loop_dims,
    ordered,
    same_layout,
    seen_in,
    spread,
    without_leading,
)
from forwardlens.rules.lifting.scope import Scope
from forwardlens.source.tree import is_atom


def elementwise(
    scope: Scope,
    node: ast.expr,
    operands: Sequence[ast.expr],
    values: Sequence[Value],
    ranks: Sequence[int | None],
) -> Batched:
    """`node` with the values of all `operands` broadcast against each other.

    `ranks` are what the run saw, None if it did not.
    """
    return broadcast(scope, node, operands, _settled(scope, node, values, ranks))


def _settled(scope: Scope, node: ast.expr, values: Sequence[Value], ranks: Sequence[int | None]) -> list[Value]:
    """`values` with the ranks of the fixed ones filled in from the run, which must agree with the others."""
    known = list(ranks)
    if isinstance(node, (ast.BinOp, ast.Compare)) and len(known) == 2 and not agree(values, known):
        # With a Python number on the left, the tensor on the right runs the operator and comes first.
        known.reverse()
    if not agree(values, known):
        raise RefusedError(f"the run saw other dimensions at `{scope.text(node)}`")
    return [
        replace(value, rank=rank) if isinstance(value, Fixed) and value.rank is None else value
        for value, rank in zip(values, known, strict=True)
    ]


def agree(values: Sequence[Value], ranks: Sequence[int | None]) -> bool:
    """Whether values have the ranks that the run saw, as far as both are known."""
    for value, rank in zip(values, ranks, strict=True):
        expected = value.round_rank if isinstance(value, Batched) else value.rank
        if rank is not None and expected is not None and rank != expected:
            return False
    return True


def broadcast(scope: Scope, node: ast.expr, operands: Sequence[ast.expr], values: Sequence[Value]) -> Batched:
    """The text of `node` with each operand in a shape that broadcasts, and the shape that comes out."""
    batched = [v for v in values if isinstance(v, Batched)]
    fixed = [v for v in values if isinstance(v, Fixed)]
    if not batched:
        raise RefusedError(f"`{scope.text(node)}` does not vary")
    scope.meet(batched)
    if same_layout(batched) and all(v.rank == 0 for v in fixed):
        # No dimension meets another one: any arrangement of the operands serves.
        parts = {o: in_place_of(node, o, v.text, v.atom) for o, v in zip(operands, values, strict=True)}
        first = batched[0]
        return replace(
            first, text=scope.spliced(node, parts), atom=is_atom(node), boolean=False, fill=None, view=False, cut=None
        )
    texts, shape = together(values)
    parts = {o: in_place_of(node, o, *text) for o, text in zip(operands, texts, strict=True)}
    return replace(shape, text=scope.spliced(node, parts), atom=is_atom(node))


def together(values: Sequence[Value]) -> tuple[list[tuple[str, bool]], Batched]:
    """The texts of values that broadcast against each other, whether they are atoms, and the shape of what comes out.

    The text of the shape is empty.
    """
    batched = [v for v in values if isinstance(v, Batched)]
    live, depth = live_loops(batched), len(batched[0].loops)
    seen = [seen_in(v, live) for v in batched]
    right = common_right(seen)
    rank = max(*(max(v.round_rank, right) for v in seen), *(v.rank or 0 for v in values if isinstance(v, Fixed)), 0)
    texts: list[tuple[str, bool]] = []
    shown = 0
    for value in values:
        if isinstance(value, Fixed):
            texts.append((fixed_text(value, right, len(live)), value.atom))
            fixed = value.rank or 0
            shown = max(shown, fixed + len(live) if fixed > right else fixed)
        else:
            own = seen_in(value, live)
            order = without_leading(own.order(right))
            texts.append(ordered(own, order))
            shown = max(shown, len(order))
    # Dimensions of size 1 in front that no operand shows are not in the result either.
    missing = rank + len(live) - shown
    loops = tuple(d - missing for d in loop_dims(rank + len(live), right, len(live)))
    slots = (*[None] * missing, *(d for d in range(shown) if d not in loops))
    return texts, spread(Batched("", shown, loops, slots), live, depth)


def in_place_of(node: ast.expr, operand: ast.expr, text: str, atom: bool) -> str:
    """`text` as it may stand where `operand` stood in `node`.

    Text made from an operator keeps the parentheses that the source has around it. Where the source had a name, an
    index or a call, there are none yet.
    """
    enclosed = isinstance(node, ast.Call) and operand in node.args
    return text if atom or enclosed or not is_atom(operand) else f"({text})"
