"""Positions there and back, in every unit and on every line end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types

from forwardlens.lsp.convert import changed, from_position, overlaps, to_position
from forwardlens.model import Span
from forwardlens.source.text import SourceText

from .changes import change_between

ENCODINGS = list(types.PositionEncodingKind)
TEXTS = st.text(st.sampled_from("ab\té\u00a0🚀\u2028\f\r\n"), max_size=30)


@given(TEXTS, st.sampled_from(ENCODINGS), st.data())
def test_a_position_survives_the_way_to_the_client_and_back(
    text: str, encoding: types.PositionEncodingKind, data: st.DataObject
) -> None:
    source = SourceText("/m.py", text)
    line = data.draw(st.integers(1, source.line_count))
    column = data.draw(st.integers(0, len(source.line(line))))
    assert from_position(source, to_position(source, line, column, encoding), encoding) == (line, column)


@pytest.mark.parametrize(("encoding", "character"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_units_are_those_of_the_encoding(encoding: str, character: int) -> None:
    source = SourceText("/m.py", "first\r\né🚀x = 1")
    assert to_position(source, 2, 3, encoding) == types.Position(1, character)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_position_beyond_the_line_is_its_end(encoding: types.PositionEncodingKind) -> None:
    source = SourceText("/m.py", "ab\ncd")
    assert from_position(source, types.Position(0, 99), encoding) == (1, 2)
    assert to_position(source, 1, 99, encoding) == types.Position(0, 2)


@pytest.mark.parametrize(
    ("first", "last", "touches"),
    [
        ((1, 4), (1, 4), True),
        ((1, 8), (1, 9), True),
        ((1, 9), (1, 9), False),
        ((1, 0), (1, 3), False),
        ((1, 0), (2, 0), True),
    ],
)
def test_a_cursor_at_either_end_touches_a_span(first: tuple[int, int], last: tuple[int, int], touches: bool) -> None:
    assert overlaps(Span("/m.py", 1, 4, 1, 8), first, last) == touches


@given(TEXTS, TEXTS, st.sampled_from(ENCODINGS))
def test_a_change_of_a_part_gives_the_text_that_the_client_has(
    before: str, after: str, encoding: types.PositionEncodingKind
) -> None:
    assert changed(before, change_between(before, after, encoding.value), encoding) == after


def test_a_change_beyond_the_text_is_one_at_its_end() -> None:
    beyond = types.Range(types.Position(7, 3), types.Position(9, 0))
    part = types.TextDocumentContentChangePartial(beyond, "c")
    assert changed("a\nb", part, types.PositionEncodingKind.Utf16) == "a\nbc"
