"""Arranging all rounds' values, against what stacking the rounds one by one gives."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forwardlens.rules.batched import Batched, Fixed, RefusedError, arranged, common_right, fixed_text, indexed

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

SIZES = (2, 3, 4, 5)


@st.composite
def values(draw: st.DrawFn) -> Batched:
    """A tensor `x` of up to four dimensions, with its slots in any order and some of size 1 between them."""
    rank = draw(st.integers(1, 4))
    loop = draw(st.integers(0, rank - 1))
    own: list[int | None] = list(draw(st.permutations([d for d in range(rank) if d != loop])))
    for _ in range(draw(st.integers(0, 2))):
        own.insert(draw(st.integers(0, len(own))), None)
    return Batched("x", rank, (loop,), tuple(own))


def _tensor(value: Batched) -> Any:
    shape = SIZES[: value.rank]
    return torch.arange(float(torch.tensor(shape).prod())).reshape(shape)


def _round(value: Batched, x: Any, number: int) -> Any:
    """One round's value by definition: pick the round, order its dimensions, add those of size 1."""
    taken = x.select(value.loop, number)
    dims = [d for d in range(value.rank) if d != value.loop]
    ordered = taken.permute([dims.index(s) for s in value.slots if s is not None])
    for position, slot in enumerate(value.slots):
        if slot is None:
            ordered = ordered.unsqueeze(position)
    return ordered


@given(values(), st.data())
@settings(max_examples=150, deadline=None)
def test_arranged_is_stacking_the_rounds(value: Batched, data: st.DataObject) -> None:
    right = data.draw(st.integers(0, value.round_rank))
    x = _tensor(value)
    rounds = [_round(value, x, number) for number in range(SIZES[value.loop])]
    put = arranged(value, right)
    found = eval(put.text, {"x": x})
    assert torch.equal(found, torch.stack(rounds, dim=value.round_rank - right))
    assert put.rank == found.dim()
    assert put.plain


@given(values(), values(), st.data())
@settings(max_examples=150, deadline=None)
def test_values_broadcast_as_their_rounds_do(one: Batched, other: Batched, data: st.DataObject) -> None:
    """Whatever place for the loop is chosen, adding the arranged tensors adds the rounds."""
    x = _tensor(one).movedim(one.loop, 0)[:2].movedim(0, one.loop)
    y = _tensor(other).movedim(other.loop, 0)[:2].movedim(0, other.loop)
    # Sizes that do not match would be an error in the rounds as well: make all but the loop's equal to 1 or 2.
    x, y = (_cut(t, v.loop) for t, v in ((x, one), (y, other)))
    sums = [_round(one, x, n) + _round(other, y, n) for n in range(2)]
    right = common_right([one, other])
    rank = max(one.round_rank, other.round_rank)
    found = eval(f"{arranged(one, right).text} + {arranged(other, right).text.replace('x', 'y')}", {"x": x, "y": y})
    assert torch.equal(found, torch.stack(sums, dim=rank - right))


def _cut(tensor: Any, loop: int) -> Any:
    for dim in range(tensor.dim()):
        tensor = tensor.narrow(dim, 0, 2 if dim == loop else min(2, tensor.size(dim)))
    return tensor


@pytest.mark.parametrize(
    ("rank", "right", "text"),
    [(0, 0, "c"), (1, 1, "c"), (2, 1, "c[:, None, :]"), (2, 0, "c[:, :, None]"), (3, 1, "c[:, :, None, :]")],
)
def test_fixed_text_leaves_room_for_the_loop(rank: int, right: int, text: str) -> None:
    assert fixed_text(Fixed("c", rank, atom=True), right) == text


def test_fixed_text_of_unknown_rank_is_refused() -> None:
    with pytest.raises(RefusedError, match="does not tell"):
        fixed_text(Fixed("c"), 0)


@pytest.mark.parametrize(
    ("items", "atom", "text"),
    [
        ([":", ":"], True, "a + b"),
        ([":", "None"], False, "(a + b)[:, None]"),
        (["None", ":", ":"], False, "(a + b)[None, :]"),
        ([":", ":3", ":"], True, "a + b[:, :3]"),
    ],
)
def test_indexed(items: list[str], atom: bool, text: str) -> None:
    assert indexed("a + b", items, atom=atom) == text
