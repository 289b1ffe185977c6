"""Where the places and functions of a recording are in the source."""

from __future__ import annotations

from functools import cache

from forwardlens.attribution.recording import OUTSIDE, Recording
from forwardlens.model import Span
from forwardlens.source.expressions import expression_at
from forwardlens.source.text import SourceText

# Comprehensions and lambdas are frames of their own; people think of them as part of the function around them.
_ANONYMOUS = (".<listcomp>", ".<setcomp>", ".<dictcomp>", ".<genexpr>", ".<lambda>")


class Places:
    """Reads the recording's indices; each expression is looked for once."""

    def __init__(self, recording: Recording) -> None:
        self._places, self._functions = recording["places"], recording["functions"]
        self._sources = {path: SourceText(path, text) for path, text in recording["texts"].items()}
        self.span = cache(self._span)

    def _span(self, place: int) -> Span | None:
        """The expression at a place; None outside user code, and where its text is not known."""
        if place == OUTSIDE:
            return None
        function, line, column, end_line, end_column, iterates = self._places[place]
        source = self.source(function)
        if source is None:
            return None
        if column is None or end_column is None:
            return source.line_span(line)
        return expression(source, line, column, end_line, end_column, iterates)

    def line_span(self, function: int, line: int) -> Span | None:
        source = self.source(function)
        return None if source is None else source.line_span(line)

    def source(self, function: int) -> SourceText | None:
        return self.source_of(self._functions[function][0])

    def source_of(self, path: str) -> SourceText | None:
        return self._sources.get(path)

    def function_name(self, function: int) -> str:
        name = self._functions[function][1]
        while name.endswith(_ANONYMOUS):
            name = name.rpartition(".<")[0]
        return name


def expression(
    source: SourceText, line: int, column: int, end_line: int, end_column: int, iterates: bool = False
) -> Span:
    """The expression between two places that the compiler counts in UTF-8 bytes."""
    start, end = source.column_from_bytes(line, column), source.column_from_bytes(end_line, end_column)
    return expression_at(source, Span(source.path, line, start, end_line, end), iterates)
