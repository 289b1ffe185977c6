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
    """Where the batch and the loops stand in front of a tensor: the loops behind the batch, or in front of it."""

    text: str
    atom: bool
    loops: tuple[int, ...]
    batch: int


def folded(scope: Scope, node: ast.Call, argument: ast.expr, value: Batched) -> Batched:
    """A call with the samples of all rounds as one batch. Raises `RefusedError`.

    `value` is that of the only argument which changes from round to round.
    """
    if not value.slots or value.slots[0] is None or None in value.loops:
        raise RefusedError(f"`{scope.text(node.func)}` is not known to take the samples of all rounds at once")
    rank = samples_kept_apart(scope.sites, node, argument, value.round_rank, in_evaluation=scope.in_evaluation)
    front = _in_front(value)
    text, atom = front.text, front.atom
    if not value.view:
        text, atom = _named(scope, node, text), True
    many = len(front.loops) + 1
    batch = f"{wrapped(text, atom)}.flatten(0, {many - 1})"
    called = scope.spliced(node, {argument: batch})
    result = f"{called}.unflatten(0, {wrapped(text, atom)}.shape[:{many}])"
    slots = (front.batch, *range(many, many + rank - 1))
    return Batched(result, many + rank - 1, front.loops, slots)


def _in_front(value: Batched) -> _Front:
    loops = tuple(d for d in value.loops if d is not None)
    rest = value.slots[1:]
    behind = (value.slots[0], *loops, *rest)
    before = (*loops, value.slots[0], *rest)
    count = len(loops)
    placed = [d for d in before if d is not None]
    if placed == sorted(placed):
        text, atom = ordered(value, before)
        return _Front(text, atom, tuple(range(count)), count)
    text, atom = ordered(value, behind)
    return _Front(text, atom, tuple(range(1, count + 1)), 0)


def _named(scope: Scope, node: ast.Call, text: str) -> str:
    """A name for what would be computed twice otherwise."""
    known = next((name for name, other in scope.before.items() if other == text), None)
    name = known or scope.sites.fresh_name(scope.loops[0].function, node, "batch")
    scope.before[name] = text
    scope.lengths.name(name, text)
    return name
