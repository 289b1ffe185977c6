"""Moved lines are found, edited ones are not mistaken for them, and it is fast enough for every keystroke."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwardlens.model import Span
from forwardlens.source.linemap import line_map
from forwardlens.source.text import SourceText


def text(*lines: str) -> SourceText:
    return SourceText("/model.py", "\n".join(lines))


def moves(old: SourceText, new: SourceText) -> list[int | None]:
    lines = line_map(old, new)
    return [lines.line(number) for number in range(1, old.line_count + 1)]


BASE = text("import torch", "", "def forward(x):", "    y = a(x)", "    return y")


def test_equal_texts_map_onto_themselves() -> None:
    assert moves(BASE, BASE) == [1, 2, 3, 4, 5]


def test_lines_below_an_insertion_move() -> None:
    assert moves(BASE, text("# new", *BASE.text.split("\n"))) == [2, 3, 4, 5, 6]


def test_an_edited_line_has_only_a_counterpart() -> None:
    new = text("import torch", "", "def forward(x):", "    y = b(x)", "    return y")
    assert moves(BASE, new) == [1, 2, 3, None, 5]
    assert line_map(BASE, new).edited_line(4) == 4
    assert line_map(BASE, new).edited_line(3) is None


def test_a_deleted_line_has_no_counterpart() -> None:
    new = text("import torch", "", "def forward(x):", "    return y")
    assert moves(BASE, new) == [1, 2, 3, None, 4]
    assert line_map(BASE, new).edited_line(4) is None


def test_line_ends_do_not_matter() -> None:
    assert moves(BASE, SourceText("/model.py", BASE.text.replace("\n", "\r\n"))) == [1, 2, 3, 4, 5]
    assert moves(BASE, SourceText("/model.py", BASE.text.replace("\n", "\r"))) == [1, 2, 3, 4, 5]


def test_a_form_feed_is_no_line_end() -> None:
    assert moves(text("a\fb", "c"), text("new", "a\fb", "c")) == [2, 3]


def test_a_function_that_changes_places_is_followed() -> None:
    first = ("def first(x):", "    y = one(x)", "    return y")
    second = ("def second(x):", "    z = two(x)", "    return z")
    assert moves(text(*first, *second), text(*second, *first)) == [4, 5, 6, 1, 2, 3]


def test_a_lone_equal_line_elsewhere_is_no_move() -> None:
    old = text("a = f(x)", "b = g(x)", "return x")
    assert moves(old, text("return x", "b = g(x)", "c = h(x)")) == [None, 2, None]


def test_a_span_moves_as_a_whole() -> None:
    old = text("y = f(", "    x,", ")", "z = 1")
    new = text("", "y = f(", "    x,", ")", "z = 1")
    assert line_map(old, new).span(Span("/model.py", 1, 4, 3, 1)) == Span("/model.py", 2, 4, 4, 1)


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(("y = f(", "    w,", ")"), id="a line inside changed"),
        pytest.param(("y = f(", "    x,", "    k,", ")"), id="a line came between"),
        pytest.param(("y = f(", ")"), id="a line went"),
    ],
)
def test_a_span_that_was_edited_has_no_place(new: tuple[str, ...]) -> None:
    old = text("y = f(", "    x,", ")")
    assert line_map(old, text(*new)).span(Span("/model.py", 1, 4, 3, 1)) is None


LINES = st.lists(st.sampled_from(["", "a", "b", "c", "return x", "    pass"]), max_size=12)


@given(LINES, LINES)
def test_only_equal_lines_are_mapped_and_each_place_is_taken_once(old: list[str], new: list[str]) -> None:
    before, after = text(*old), text(*new)
    lines = line_map(before, after)
    taken: list[int] = []
    for number in range(1, before.line_count + 1):
        place, edited = lines.line(number), lines.edited_line(number)
        assert place is None or edited is None
        if place is not None:
            assert before.line(number) == after.line(place)
        if (target := place or edited) is not None:
            taken.append(target)
    assert len(taken) == len(set(taken))


@given(LINES, st.integers(0, 12), LINES)
def test_an_insertion_moves_every_other_line(old: list[str], at: int, extra: list[str]) -> None:
    before = text("first", *old, "last")
    at = min(at, len(old))
    lines = line_map(before, text("first", *old[:at], *(f"new {line}" for line in extra), *old[at:], "last"))
    assert lines.line(1) == 1
    assert lines.line(before.line_count) == before.line_count + len(extra)


def test_a_keystroke_in_a_large_file_is_cheap() -> None:
    lines = [f"    x{number} = layer{number % 50}(x)" if number % 3 else "" for number in range(5000)]
    old = text(*lines)
    lines[10], lines[4990] = "changed", "changed too"
    new = text(*lines)
    taken: list[float] = []
    for _ in range(3):
        began = time.thread_time()
        assert moves(old, new).count(None) == 2
        taken.append(time.thread_time() - began)
    # A tenth of a second is what a user notices; this takes a twentieth of that on an idle machine.
    assert min(taken) < 0.1
