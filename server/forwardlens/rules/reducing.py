"""Lifting what works along the dimensions of a round's value: reductions, softmax, matrix products, joins, gathers.

Each function gets the values of a round that are lifted already and says where their dimensions end up. All of them
may run for all rounds at once because the loop's dimension stays out of their way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, arranged, fixed_text, indexed, wrapped

# These take dimensions away.
REDUCING = frozenset("sum mean amax amin prod logsumexp std var norm any all max min argmax argmin".split())
# These work along one dimension and keep it.
ALONG = frozenset("softmax log_softmax cumsum normalize".split())
# Without a dimension these flatten the value, so they need one to be given; softmax guesses one.
NEEDS_DIM = frozenset("logsumexp argmax argmin softmax log_softmax cumsum".split())


def round_dims(value: Batched, given: Sequence[int] | None) -> tuple[int, ...]:
    """The dimensions of a round's value that an operation works along: all of them where none is given."""
    rank = value.round_rank
    if given is None:
        given = range(rank)
    if rank == 0 or any(not -rank <= d < rank for d in given) or len({d % rank for d in given}) != len(given):
        raise RefusedError("the run and the source disagree about dimensions")
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
    return Batched(text, len(left), left.index(value.loop), slots)


def plain(value: Batched, right: int | None = None) -> Batched:
    """The value with all its dimensions in it, the loop's in front unless it is fine where it is."""
    return arranged(value, value.natural if right is None else right)


def product(values: Sequence[Value], ranks: Sequence[int | None]) -> tuple[str, str, int]:
    """The texts of the two operands of a matrix product over all rounds, and the rank of a round's result."""
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
        return _factor(one, left, most), _factor(other, right, most), most
    if right == 1 and left >= 2 and isinstance(other, Fixed):
        return _factor(one, left, left), other.text, left - 1
    if left == 1 and right == 2 and isinstance(other, Fixed):
        return _factor(one, left, 1), other.text, 1
    raise RefusedError("a product of vectors has no plain form for all rounds at once")


def _factor(value: Value, rank: int, right: int) -> str:
    if isinstance(value, Fixed):
        return wrapped(fixed_text(replace(value, rank=rank), right), value.atom)
    put = arranged(value, right)
    return wrapped(put.text, put.atom)


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
    return Batched(text, len(kept) + 1 + extra, before, tuple(slots))


def joined(values: Sequence[Value], dim: int, stack: bool) -> tuple[list[str], int, int]:
    """The texts of what `torch.cat` or `torch.stack` of a round joins, the dimension, and the rank of a round."""
    if not values or any(isinstance(v, Fixed) for v in values):
        raise RefusedError("a part that is joined is the same in every round")
    batched = [v for v in values if isinstance(v, Batched)]
    rank = batched[0].round_rank
    if any(v.round_rank != rank for v in batched):
        raise RefusedError("the run and the source disagree about dimensions")
    size = rank + 1 if stack else rank
    if not -size <= dim < size:
        raise RefusedError("the run and the source disagree about dimensions")
    texts = [arranged(v, rank).text for v in batched]
    return texts, dim if dim < 0 else dim + 1, size


def leading(text: str, round_rank: int, atom: bool = True) -> Batched:
    """A value for all rounds whose loop dimension stands in front."""
    return Batched(text, round_rank + 1, 0, tuple(range(1, round_rank + 1)), atom)
