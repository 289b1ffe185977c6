"""A value of one loop round, and the tensor that holds it for all rounds at once.

A round's value has dimensions of its own, the *slots*. The tensor for all rounds has one dimension more for each loop
around it. Where those dimensions stand is left open as long as possible: `mask[:, t].view(-1, 1, 1)` is just `mask`
with slots `(0, None, None)` and loop dimension 1, and only the expression that it meets decides between
`mask[:, :, None, None]` and `mask[:, None, None, :]`. Nested loops have their dimensions side by side, outermost first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

# As `ordered` writes it.
_MOVED = re.compile(r"\.permute\([\d, ]+\)")


class RefusedError(Exception):
    """The loop, or this part of it, cannot be written for all rounds at once. The message says why."""


@dataclass(frozen=True)
class Fixed:
    """The same in every round. `rank` is None as long as nothing tells it; scalars have rank 0."""

    text: str
    rank: int | None = None
    atom: bool = False


@dataclass(frozen=True)
class Cut:
    """A tensor cut along its dimensions: `x[:, :n]` is `stem` x with `slices` (`:`, `:n`)."""

    stem: str
    atom: bool
    slices: tuple[str, ...]


@dataclass(frozen=True)
class Batched:
    """`text` is a tensor of rank `rank` that holds every round's value.

    `loops` are the dimensions that run over the rounds of each loop, the outermost first, None for a loop that the
    value does not change in. `slots` lists, for each dimension of a round's value, the dimension of `text` that holds
    it, or None for one of size 1 that `text` lacks. `atom` is true if `text` can be
    indexed without parentheses, `boolean` if its elements certainly are booleans. `fill` is the scalar that all
    elements are equal to. `view` is true if the value shares its memory with a tensor from outside the loop. `cut` is
    given where `text` is only a cut of something, to which further indices can be added. `places` are the marked
    slices (`windows.py`) that `text` no longer shows as such.
    """

    text: str
    rank: int
    loops: tuple[int | None, ...]
    slots: tuple[int | None, ...]
    atom: bool = True
    cut: Cut | None = None
    boolean: bool = False
    fill: str | None = None
    view: bool = False
    places: frozenset[str] = frozenset()

    @property
    def loop(self) -> int:
        """The dimension of the only loop. Raises `RefusedError` for nested ones."""
        first = self.loops[0] if len(self.loops) == 1 else None
        if first is None:
            raise RefusedError("two loops inside each other")
        return first

    @property
    def round_rank(self) -> int:
        return len(self.slots)

    @property
    def plain(self) -> bool:
        """Whether `text` already is the value with the loop's dimension put in, nothing added or moved."""
        return None not in self.loops and self.slots == tuple(d for d in range(self.rank) if d not in self.loops)

    def order(self, right: int) -> tuple[int | None, ...]:
        """The dimensions of `text` in the order that puts the loops in front of the last `right` slots."""
        padded = (*([None] * (right - self.round_rank)), *self.slots)
        cut = len(padded) - right
        return (*padded[:cut], *self.loops, *padded[cut:])

    def is_free(self, right: int) -> bool:
        """Whether that order needs no dimension to be moved."""
        dims = [d for d in self.order(right) if d is not None]
        return dims == sorted(dims)

    @property
    def natural(self) -> int:
        """The number of slots behind the loop's dimension that leaves `text` as it is, as far as possible."""
        return next((r for r in range(self.round_rank + 1) if self.is_free(r)), self.round_rank)


Value = Fixed | Batched


def wrapped(text: str, atom: bool) -> str:
    """`text` as it can stand in front of a dot or a bracket."""
    return text if atom else f"({text})"


def indexed(text: str, items: Sequence[str], *, atom: bool = True) -> str:
    """`text[items]` without the full slices at its end; `text` itself if nothing else is left."""
    kept = list(items)
    while kept and kept[-1] == ":":
        kept.pop()
    if not kept:
        return text
    # A trailing slice keeps the reader from counting: `x[:, None, None, :]` says more than `x[:, None, None]`.
    shown = [*kept, ":"] if kept[-1] == "None" and len(kept) < len(items) else kept
    return f"{wrapped(text, atom)}[{', '.join(shown)}]"


def arranged(value: Batched, right: int) -> Batched:
    """The same value as a plain tensor whose loop dimensions stand in front of the last `right` slots.

    Slots that are missing on the left are added where the loops would otherwise stand among them.
    """
    order = value.order(right)
    text, atom = ordered(value, order)
    loops = loop_dims(len(order), right, len(value.loops))
    return replace(
        value,
        text=text,
        atom=atom,
        rank=len(order),
        loops=loops,
        slots=tuple(d for d in range(len(order)) if d not in loops),
        cut=value.cut if text == value.text else None,
    )


def ordered(value: Batched, order: Sequence[int | None]) -> tuple[str, bool]:
    """The text of a value with its dimensions in `order`, None for a new one of size 1, and whether it is an atom."""
    dims = [d for d in order if d is not None]
    text, atom = value.text, value.atom
    if sorted(dims) != list(range(value.rank)):
        raise RefusedError("a dimension of the value has no place in the result")
    if dims != sorted(dims):
        moved = ", ".join(str(d) for d in dims)
        text, atom = f"{wrapped(text, atom)}.permute({moved})", True
    if value.cut is not None and dims == sorted(dims):
        slices = value.cut.slices
        changed = indexed(value.cut.stem, ["None" if d is None else slices[d] for d in order], atom=value.cut.atom)
    else:
        changed = indexed(text, ["None" if d is None else ":" for d in order], atom=atom)
    return changed, True if changed != text else atom


def moves(text: str) -> bool:
    """Whether the text of a value moves dimensions, so that they do not lie in memory in their order."""
    return _MOVED.search(text) is not None


def without_leading(order: Sequence[int | None]) -> Sequence[int | None]:
    """`order` without new dimensions in front, which broadcasting adds by itself."""
    first = next((n for n, d in enumerate(order) if d is not None), len(order))
    return order[first:]


def meeting(value: Value, region: Batched) -> str:
    """The text of a value in an order that broadcasts to the tensor that all rounds write to."""
    if isinstance(value, Fixed):
        if value.rank is None:
            raise RefusedError(f"the run does not tell how many dimensions `{value.text}` has")
        taken = set(region.slots[region.round_rank - value.rank :])
        items = ["None" if d in region.loops else ":" for d in range(region.rank) if d in region.loops or d in taken]
        while items and items[0] == "None":
            items.pop(0)
        return indexed(value.text, items, atom=value.atom) if "None" in items else value.text
    missing = region.round_rank - value.round_rank
    padded = (*([None] * missing), *value.slots)
    if missing < 0:
        raise RefusedError("the value has more dimensions than the slice")
    if None in region.loops:
        raise RefusedError("the slice is the same in every round of a loop")
    order: list[int | None] = [
        value.loops[region.loops.index(d)] if d in region.loops else padded[region.slots.index(d)]
        for d in range(region.rank)
    ]
    return ordered(value, without_leading(order))[0]


def live_loops(values: Iterable[Batched]) -> tuple[int, ...]:
    """The numbers of the loops that at least one of the values changes in."""
    every = list(values)
    return tuple(k for k in range(len(every[0].loops)) if any(v.loops[k] is not None for v in every))


def seen_in(value: Batched, loops: Sequence[int]) -> Batched:
    """The value with only the loops of these numbers."""
    return replace(value, loops=tuple(value.loops[k] for k in loops))


def spread(value: Batched, loops: Sequence[int], depth: int) -> Batched:
    """The value of the loops of these numbers among `depth` loops."""
    where = dict(zip(loops, value.loops, strict=True))
    return replace(value, loops=tuple(where.get(k) for k in range(depth)))


def reduced_over_last(value: Batched, method: str) -> Batched:
    """All rounds of the innermost loop put together by a reduction like `sum`."""
    if value.loops[-1] is None:
        raise RefusedError("every round gives the same value")
    live = live_loops([value])
    put = seen_in(value, live)
    put = arranged(put, put.natural)
    gone = put.loops[-1]
    assert gone is not None
    text = f"{wrapped(put.text, put.atom)}.{method}({gone})"
    left = [d for d in range(put.rank) if d != gone]
    loops = tuple(left.index(d) for d in put.loops[:-1] if d is not None)
    slots = tuple(None if d is None else left.index(d) for d in put.slots)
    return spread(Batched(text, put.rank - 1, loops, slots), live[:-1], len(value.loops) - 1)


def stacked(value: Batched, dim: int, *, backwards: bool = False) -> Batched:
    """The rounds of the innermost loop as a dimension of the value, where `torch.stack` puts them."""
    along = value.loops[-1]
    if along is None:
        raise RefusedError("every round gives the same value")
    value = flipped(value) if backwards else value
    return replace(value, loops=value.loops[:-1], slots=(*value.slots[:dim], along, *value.slots[dim:]))


def concatenated(value: Batched, dim: int, *, backwards: bool = False) -> Batched:
    """The rounds of the innermost loop behind each other along a dimension of the value, as `torch.cat` puts them."""
    if value.slots[dim] is None:
        return stacked(replace(value, slots=(*value.slots[:dim], *value.slots[dim + 1 :])), dim, backwards=backwards)
    if value.loops[-1] is None:
        raise RefusedError("every round gives the same value")
    value = flipped(value) if backwards else value
    live = live_loops([value])
    whole = arranged(seen_in(value, live), value.round_rank - dim)
    at = whole.loops[-1]
    assert at is not None
    text = f"{wrapped(whole.text, whole.atom)}.flatten({at}, {at + 1})"
    slots = tuple(None if d is None else d - (d > at) for d in whole.slots)
    joined = Batched(text, whole.rank - 1, whole.loops[:-1], slots)
    return spread(joined, live[:-1], len(value.loops) - 1)


def put_together(value: Batched, dim: int, *, stack: bool, backwards: Sequence[bool]) -> Batched:
    """The rounds of the innermost loops as `torch.stack` or `torch.cat` puts them together along `dim`.

    `backwards` tells of each of these loops, outermost first, whether it runs the other way round. The rounds of an
    outer one stand around those of the inner ones, along the same dimension.
    """
    rank = value.round_rank + stack
    if not -rank <= dim < rank:
        raise RefusedError("the values have too few dimensions to be put together like this")
    *outer, inner = backwards
    put = stacked if stack else concatenated
    value = put(value, dim % rank, backwards=inner)
    for one in reversed(outer):
        value = concatenated(value, dim % rank, backwards=one)
    return value


def flipped(value: Batched) -> Batched:
    """The value with the rounds of the innermost loop the other way round."""
    text = f"{wrapped(value.text, value.atom)}.flip({value.loops[-1]})"
    return replace(value, text=text, atom=True, cut=None, view=False)


def loop_dims(rank: int, right: int, depth: int = 1) -> tuple[int, ...]:
    """The dimensions of `depth` loops that stand side by side in front of the last `right` of `rank` dimensions."""
    return tuple(range(rank - right - depth, rank - right))


def fixed_text(value: Fixed, right: int, depth: int = 1) -> str:
    """A value without the loops, with dimensions of size 1 put where the others have those of `depth` loops."""
    if value.rank is None:
        raise RefusedError(f"the run does not tell how many dimensions `{value.text}` has")
    if value.rank <= right:
        return value.text
    items = [*[":"] * (value.rank - right), *["None"] * depth, *[":"] * right]
    return indexed(value.text, items, atom=value.atom)


def common_right(values: Iterable[Batched]) -> int:
    """Where the loop should stand when these values meet: so that as few of them as possible are moved.

    Every choice gives the same result in another order of dimensions. The largest plain value decides among equals.
    """
    every = list(values)
    rank = max(v.round_rank for v in every)
    lead = max(every, key=lambda v: (v.round_rank, v.plain))
    choices = [lead.natural, *range(rank + 1)]
    return min(choices, key=lambda right: sum(not v.is_free(right) for v in every))


def same_layout(values: Sequence[Batched]) -> bool:
    first = values[0]
    return all((v.rank, v.loops, v.slots) == (first.rank, first.loops, first.slots) for v in values)
