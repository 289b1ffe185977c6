"""Which slices of a rewritten loop say nothing, decided on text alone."""

from __future__ import annotations

import pytest

from forwardlens.rules.batched import Batched
from forwardlens.rules.windows import Lengths, marked, plain_text


def _row(text: str) -> Batched:
    return Batched(text, 2, (0,), (1,))


def test_a_slice_that_meets_the_loops_own_length_goes() -> None:
    lengths = Lengths()
    cut = f"y[{marked('1.0.t', 'y.0', ': len(x)')}]"
    lengths.meet(["1.0.t"], [_row("x"), _row(cut)])
    assert lengths.finished(f"x * {cut}") == "x * y"


def test_a_slice_that_meets_nothing_stays() -> None:
    lengths = Lengths()
    cut = f"y[{marked('1.0.t', 'y.0', ': len(x)')}]"
    lengths.meet(["1.0.t"], [_row(cut), _row(cut)])
    assert lengths.finished(f"{cut} * {cut}") == "y[: len(x)] * y[: len(x)]"


def test_a_slice_that_the_run_saw_leave_something_out_stays() -> None:
    lengths = Lengths()
    cut = f"y[{marked('1.0.t', 'y.0', ': len(x)')}]"
    lengths.meet(["1.0.t"], [_row("x"), _row(cut)])
    lengths.see("1.0.t", ":", 20)
    lengths.see("1.0.t", marked("1.0.t", "y.0", ": len(x)"), 30)
    assert lengths.finished(cut) == "y[: len(x)]"


def test_what_a_name_was_made_of_counts() -> None:
    lengths = Lengths()
    cut = f"y[{marked('1.0.t', 'y.0', ': len(x)')}]"
    lengths.name("e", cut)
    lengths.meet(["1.0.t"], [_row("e"), _row("x")])
    assert lengths.finished(cut) == "y"


def test_a_zip_needs_all_its_tensors_to_meet() -> None:
    lengths = Lengths(zipped={"1.0.a": {"1.0.a|x.0", "1.0.a|y.0"}}, shapes={"1.0.a": 1})
    one = f"x[{marked('1.0.a', 'x.0', ': len(y)')}]"
    other = f"y[{marked('1.0.a', 'y.0', ': len(x)')}]"
    assert lengths.finished(f"{one} + 1") == "x[: len(y)] + 1"
    lengths.meet(["1.0.a"], [_row(one), _row(other)])
    assert lengths.finished(f"{one} - {other}") == "x - y"


def test_a_zip_over_several_shapes_keeps_its_slices() -> None:
    lengths = Lengths(zipped={"1.0.a": {"1.0.a|x.0", "1.0.a|y.0"}}, shapes={"1.0.a": 2})
    one = f"x[{marked('1.0.a', 'x.0', ': len(y)')}]"
    other = f"y[{marked('1.0.a', 'y.0', ': len(x)')}]"
    lengths.meet(["1.0.a"], [_row(one), _row(other)])
    assert lengths.finished(f"{one} - {other}") == "x[: len(y)] - y[: len(x)]"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("", "", "y"),
        ("", ", None, :", "y[:, None, :]"),
        (":, ", "", "y"),
        ("None, ", ", z[0, 1]", "y[None, :, z[0, 1]]"),
    ],
)
def test_the_rest_of_an_index_stays(before: str, after: str, text: str) -> None:
    lengths = Lengths()
    cut = f"y[{before}{marked('1.0.t', 'y.0', ': n')}{after}]"
    lengths.meet(["1.0.t"], [_row("x"), _row(cut)])
    assert lengths.finished(cut) == text


def test_plain_text_keeps_all_slices() -> None:
    assert plain_text(f"y[{marked('1.0.t', 'y.0', ': n')}]") == "y[: n]"
