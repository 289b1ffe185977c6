"""Places in source text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of one file.

    Lines are 1-based, columns are 0-based and count code points, the end is exclusive.
    `file` is absolute inside the server and relative to the workspace in reports.
    Where the interpreter gives no columns (Python 3.10) a span covers its whole line.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def start(self) -> tuple[int, int]:
        return (self.line, self.column)

    @property
    def end(self) -> tuple[int, int]:
        return (self.end_line, self.end_column)

    def contains(self, other: Span) -> bool:
        return self.file == other.file and self.start <= other.start and other.end <= self.end
