"""A value of one loop round, and the tensor that holds it for all rounds at once.

A round's value has dimensions of its own, the *slots*. The tensor for all rounds has one dimension more, the loop's.
Where that dimension stands is left open as long as possible: `mask[:, t].view(-1, 1, 1)` is just `mask` with slots
`(0, None, None)` and loop dimension 1, and only the expression that it meets decides between
`mask[:, :, None, None]` and `mask[:, None, None, :]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace


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

    `loop` is the dimension that runs over the rounds. `slots` lists, for each dimension of a round's value, the
    dimension of `text` that holds it, or None for one of size 1 that `text` lacks. `atom` is true if `text` can be
    indexed without parentheses, `boolean` if its elements certainly are booleans. `fill` is the scalar that all
    elements are equal to. `view` is true if the value shares its memory with a tensor from outside the loop. `cut` is
    given where `text` is only a cut of something, to which further indices can be added.
    """

    text: str
    rank: int
    loop: int
    slots: tuple[int | None, ...]
    atom: bool = True
    cut: Cut | None = None
    boolean: bool = False
    fill: str | None = None
    view: bool = False

    @property
    def round_rank(self) -> int:
        return len(self.slots)

    @property
    def plain(self) -> bool:
        """Whether `text` already is the value with the loop's dimension put in, nothing added or moved."""
        return self.slots == tuple(d for d in range(self.rank) if d != self.loop)

    def order(self, right: int) -> tuple[int | None, ...]:
        """The dimensions of `text` in the order that puts the loop in front of the last `right` slots."""
        padded = (*([None] * (right - self.round_rank)), *self.slots)
        cut = len(padded) - right
        return (*padded[:cut], self.loop, *padded[cut:])

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
    """The same value as a plain tensor whose loop dimension stands in front of the last `right` slots.

    Slots that are missing on the left are added where the loop would otherwise stand among them.
    """
    order = value.order(right)
    dims = [d for d in order if d is not None]
    text, atom = value.text, value.atom
    if dims != sorted(dims):
        moved = ", ".join(str(d) for d in dims)
        text, atom = f"{wrapped(text, atom)}.permute({moved})", True
    elif len(dims) != value.rank:
        raise RefusedError("a dimension of the value has no place in the result")
    if value.cut is not None and dims == sorted(dims):
        slices = value.cut.slices
        changed = indexed(value.cut.stem, ["None" if d is None else slices[d] for d in order], atom=value.cut.atom)
    else:
        changed = indexed(text, ["None" if d is None else ":" for d in order], atom=atom)
    loop = len(order) - 1 - right
    return replace(
        value,
        text=changed,
        atom=True if changed != text else atom,
        rank=len(order),
        loop=loop,
        slots=tuple(d for d in range(len(order)) if d != loop),
        cut=value.cut if changed == text else None,
    )


def fixed_text(value: Fixed, right: int) -> str:
    """A value without the loop, with a dimension of size 1 put where the others have the loop's."""
    if value.rank is None:
        raise RefusedError(f"the run does not tell how many dimensions `{value.text}` has")
    if value.rank <= right:
        return value.text
    return indexed(value.text, [*[":"] * (value.rank - right), "None", *[":"] * right], atom=value.atom)


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
    return all((v.rank, v.loop, v.slots) == (first.rank, first.loop, first.slots) for v in values)
