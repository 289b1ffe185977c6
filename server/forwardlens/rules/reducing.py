"""Lifting what works along the dimensions of a round's value: reductions, softmax, matrix products, joins, gathers.

Each function gets the values of a round that are lifted already and says where their dimensions end up. All of them
may run for all rounds at once because the loop's dimension stays out of their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forwardlens.rules.batched import (
    Batched,
    Fixed,
    RefusedError,
    Value,
    arranged,
    fixed_text,
    indexed,
    loop_dims,
    ordered,
    without_leading,
    wrapped,
)

# These take dimensions away.
REDUCING = frozenset("sum mean amax amin prod logsumexp std var norm any all max min argmax argmin median".split())
# Along a dimension these give values and indices.
PAIRED = frozenset({"max", "min", "median"})
# These work along one dimension and keep it.
ALONG = frozenset("softmax log_softmax cumsum normalize".split())
# Without a dimension these flatten the value, so they need one to be given; softmax guesses one.
NEEDS_DIM = frozenset("logsumexp argmax argmin softmax log_softmax cumsum".split())


def round_dims(value: Batched, given: Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions of a round's value that an operation works along: all of them where none is given."""
    rank = value.round_rank
    if given is None:
        given = range(rank)
    if rank == 0:
        raise RefusedError("a round's value has no dimension to work along")
    if any(not -rank <= d < rank for d in given) or len({d % rank for d in given}) != len(given):
        raise RefusedError("a dimension that is given is not one that a round's value has")
    return tuple(d % rank for d in given)


def placed(value: Batched, dims: Sequence[int], negative: bool) -> tuple[int, ...]:
    """Where the dimensions `dims` of a round's value are in the tensor for all rounds, as `arranged` has it."""
    return tuple((value.slots[d] or 0) - (value.rank if negative else 0) for d in dims)


def reduced(value: Batched, text: str, dims: Sequence[int], keep: bool) -> Batched:
    """The value after `dims` of a round are taken away, or left with size 1."""
    gone = {value.slots[d] for d in dims}
    if keep:
        return replace(value, text=text, atom=True, boolean=False, fill=None, view=False, cut=None)
    left = [d for d in range(value.rank) if d not in gone]
    slots = tuple(left.index(s) for d, s in enumerate(value.slots) if d not in dims and s is not None)
    loops = tuple(None if d is None else left.index(d) for d in value.loops)
    return Batched(text, len(left), loops, slots)


def plain(value: Batched, right: int | None = None) -> Batched:
    """The value with all its dimensions in it, the loop's in front unless it is fine where it is."""
    return arranged(value, value.natural if right is None else right)


def product(values: Sequence[Value], ranks: Sequence[int | None], depth: int = 1) -> Batched:
    """A matrix product over all rounds of `depth` loops, which all of the values that change run in."""
    sizes = [
        v.round_rank if isinstance(v, Batched) else (r if v.rank is None else v.rank)
        for v, r in zip(values, ranks, strict=True)
    ]
    left, right = sizes
    if left is None or right is None:
        raise RefusedError("the run does not tell how many dimensions a matrix has")
    one, other = values
    if left >= 2 and right >= 2:
        most = max(left, right)
        place = between([v for v in values if isinstance(v, Batched)], 2, most)
        text = f"{_factor(one, left, place, depth)} @ {_factor(other, right, place, depth)}"
        return standing(text, most, place, depth, atom=False)
    if left == 1 and right == 1:
        return _summed_product(values, depth)
    if right == 1 and left >= 2 and isinstance(other, Fixed):
        return _matrices(_factor(one, left, left, depth), other.text, left - 1, depth)
    if left == 1 and right == 2 and isinstance(other, Fixed):
        return _matrices(_factor(one, left, 1, depth), other.text, 1, depth)
    raise RefusedError("a product of vectors has no plain form for all rounds at once")


def between(values: Sequence[Batched], least: int, most: int) -> int:
    """How many of the last dimensions stand behind the loops', so that as few values as possible are moved."""
    return min(range(most, least - 1, -1), key=lambda right: sum(not v.is_free(right) for v in values))


def _summed_product(values: Sequence[Value], depth: int) -> Batched:
    """The product of two vectors, element by element and then added up."""
    one, other = (
        ordered(v, without_leading(v.order(1))) if isinstance(v, Batched) else (v.text, v.atom) for v in values
    )
    text = f"({wrapped(*one)} * {wrapped(*other)}).sum(-1)"
    return standing(text, 0, 0, depth)


def standing(text: str, round_rank: int, right: int, depth: int, *, atom: bool = True) -> Batched:
    """A value for all rounds whose loop dimensions stand in front of the last `right` of a round's."""
    rank = round_rank + depth
    loops = loop_dims(rank, right, depth)
    return Batched(text, rank, loops, tuple(d for d in range(rank) if d not in loops), atom)


def _matrices(left: str, right: str, rank: int, depth: int) -> Batched:
    return leading(f"{left} @ {right}", rank, depth, atom=False)


def _factor(value: Value, rank: int, right: int, depth: int) -> str:
    if isinstance(value, Fixed):
        return wrapped(fixed_text(replace(value, rank=rank), right, depth), value.atom)
    put = arranged(value, right)
    return wrapped(put.text, put.atom)


def on_diagonal(value: Batched, loop: int, other: int) -> Batched:
    """The value where the dimension of a loop and another one have the same number: `x[i, i]` in round `i`."""
    own = value.loops[loop]
    assert own is not None
    left = [d for d in range(value.rank) if d not in (own, other)]
    dims = f"dim1={own}, dim2={other}" if (own, other) != (0, 1) else ""
    return replace(
        value,
        text=f"{wrapped(value.text, value.atom)}.diagonal({dims})",
        rank=value.rank - 1,
        # A diagonal is the last dimension.
        loops=tuple(
            len(left) if number == loop else None if d is None else left.index(d)
            for number, d in enumerate(value.loops)
        ),
        slots=tuple(None if d is None else left.index(d) for d in value.slots),
        atom=True,
        cut=None,
    )


def looked_up(value: Batched, items: Sequence[str | Batched], arange: str) -> Batched:
    """`value[items]` where one item is a tensor of positions that differs from round to round.

    `items` has one entry for each dimension of a round's value, `:` or a slice for those that are not looked up.
    `arange` is the text of the numbers of the rounds.
    """
    base = plain(value)
    at = next(n for n, item in enumerate(items) if isinstance(item, Batched))
    ids = items[at]
    assert isinstance(ids, Batched)
    ids = arranged(ids, ids.round_rank)
    extra = ids.rank - 1
    axes = [""] * base.rank
    axes[base.loop] = indexed(arange, [":", *["None"] * extra]) if extra else arange
    for n, item in enumerate(items):
        axes[base.slots[n] or 0] = ids.text if isinstance(item, Batched) else item
    looked, loop = base.slots[at] or 0, base.loop
    kept = [d for d in range(base.rank) if d not in {looked, loop}]
    before = sum(d < min(looked, loop) for d in kept) if abs(looked - loop) == 1 else 0
    # Index tensors that stand together keep their place; apart they move to the front.
    position = {d: n if n < before else n + 1 + extra for n, d in enumerate(kept)}
    slots: list[int | None] = []
    for n, slot in enumerate(base.slots):
        if n == at:
            slots += range(before + 1, before + 1 + extra)
        else:
            slots.append(position[slot or 0])
    while axes and axes[-1] == ":":
        axes.pop()
    text = f"{wrapped(base.text, base.atom)}[{', '.join(axes)}]"
    return Batched(text, len(kept) + 1 + extra, (before,), tuple(slots))


def joined(values: Sequence[Value], dim: int, stack: bool, depth: int = 1) -> tuple[list[str], int, int]:
    """The texts of what `torch.cat` or `torch.stack` of a round joins, the dimension, and the rank of a round."""
    if not values or any(isinstance(v, Fixed) for v in values):
        raise RefusedError("a part that is joined is the same in every round")
    batched = [v for v in values if isinstance(v, Batched)]
    rank = batched[0].round_rank
    if any(None in v.loops for v in batched):
        raise RefusedError("a part that is joined is the same in every round of a loop")
    if any(v.round_rank != rank for v in batched):
        raise RefusedError("the parts that are joined differ in how many dimensions they have")
    size = rank + 1 if stack else rank
    if not -size <= dim < size:
        raise RefusedError("the parts have too few dimensions to be joined like this")
    texts = [arranged(v, rank).text for v in batched]
    return texts, dim if dim < 0 else dim + depth, size


def leading(text: str, round_rank: int, depth: int = 1, *, atom: bool = True) -> Batched:
    """A value for all rounds whose loop dimensions stand in front."""
    loops = tuple(range(depth))
    return Batched(text, round_rank + depth, loops, tuple(range(depth, round_rank + depth)), atom)
