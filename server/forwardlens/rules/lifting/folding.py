"""Calls that treat the samples of a batch one by one: all rounds' samples are one larger batch for them.

`self.encoder(frames[:, t])` becomes `self.encoder(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from forwardlens.rules.batched import Batched, RefusedError, ordered, wrapped
from forwardlens.rules.lifting.samples import samples_kept_apart
from forwardlens.rules.lifting.scope import Scope


@dataclass(frozen=True)
class _Front:
    """A tensor with its `dims` first dimensions those of the loops and of the batch, which is None for one sample."""

    text: str
    atom: bool
    dims: int
    loops: tuple[int, ...]
    batch: int | None


def folded(scope: Scope, node: ast.Call, argument: ast.expr, value: Batched) -> Batched:
    """A call with the samples of all rounds as one batch. Raises `RefusedError`.

    `value` is that of the only argument which changes from round to round.
    """
    if not value.slots or None in value.loops:
        raise RefusedError(f"`{scope.text(node.func)}` is not known to take the samples of all rounds at once")
    rank = samples_kept_apart(scope.sites, node, argument, value.round_rank, in_evaluation=scope.in_evaluation)
    front = _in_front(value)
    text, atom = front.text, front.atom
    if not value.view:
        # It is read twice, and would be computed twice.
        text, atom = scope.name_before(text, "batch"), True
    many = front.dims
    if many == 1:
        # Each round has one sample: the rounds themselves are the batch.
        called = scope.spliced(node, {argument: text})
        return Batched(called, rank, front.loops, (front.batch, *range(1, rank)))
    called = scope.spliced(node, {argument: f"{wrapped(text, atom)}.flatten(0, {many - 1})"})
    result = f"{called}.unflatten(0, {wrapped(text, atom)}.shape[:{many}])"
    return Batched(result, many + rank - 1, front.loops, (front.batch, *range(many, many + rank - 1)))


def _in_front(value: Batched) -> _Front:
    """The loops behind the batch where they stand there already, else in front of it."""
    loops, count = tuple(d for d in value.loops if d is not None), len(value.loops)
    batch, rest = value.slots[0], value.slots[1:]
    if batch is None:
        return _Front(*ordered(value, (*loops, *rest)), count, tuple(range(count)), None)
    placed = [d for d in (*loops, batch, *rest) if d is not None]
    if placed == sorted(placed):
        return _Front(*ordered(value, (*loops, batch, *rest)), count + 1, tuple(range(count)), count)
    return _Front(*ordered(value, (batch, *loops, *rest)), count + 1, tuple(range(1, count + 1)), 0)
