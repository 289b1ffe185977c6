"""Applying edits to text, and nothing but them."""

from __future__ import annotations

from collections.abc import Iterable

from forwardlens.model import Edit
from forwardlens.source.text import SourceText


class OverlappingEditsError(ValueError):
    """Two edits touch the same text."""


def apply_edits(source: SourceText, edits: Iterable[Edit]) -> SourceText:
    """The text after `edits`, whose positions all refer to `source`. Bytes outside them stay as they are.

    Raises `OverlappingEditsError` if two of them overlap.
    """
    pieces: list[str] = []
    done = 0
    for start, end, text in sorted((source.offset(*e.start), source.offset(*e.end), e.text) for e in edits):
        if start < done:
            line, column = source.position(start)
            raise OverlappingEditsError(f"{source.path}:{line}:{column + 1}: two edits overlap")
        pieces += (source.text[done:start], text)
        done = end
    pieces.append(source.text[done:])
    return source.with_text("".join(pieces))
