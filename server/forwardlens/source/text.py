"""One file's text and everything about positions in it.

Three column units meet here and nowhere else: Python's compiler counts UTF-8 bytes, our spans count code points,
and LSP clients count UTF-16 units unless they agreed on something else.
"""

from __future__ import annotations

import ast
import bisect
import hashlib
import io
import re
import tokenize
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from forwardlens.model import Span

# The line ends of LSP and of Python's tokenizer. `str.splitlines` also splits at form feeds and U+2028.
_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True)
class SourceText:
    """An immutable version of a file.

    `text` has no byte-order mark; `encoding` and `bom` say how to write it back unchanged.
    """

    path: str
    text: str
    encoding: str = "utf-8"
    bom: bool = False

    @classmethod
    def read(cls, path: str | Path) -> SourceText:
        """Read a Python file the way the interpreter does (PEP 263), keeping its line ends.

        Raises `OSError` if it cannot be read, `SyntaxError` or `UnicodeDecodeError` if it cannot be decoded.
        """
        data = Path(path).read_bytes()
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        bom = encoding == "utf-8-sig"
        return cls(str(path), data.decode(encoding), "utf-8" if bom else encoding, bom)

    def to_bytes(self) -> bytes:
        return self.text.encode("utf-8-sig" if self.bom else self.encoding)

    def with_text(self, text: str) -> SourceText:
        return SourceText(self.path, text, self.encoding, self.bom)

    @cached_property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()

    @cached_property
    def _starts(self) -> tuple[int, ...]:
        return (0, *(match.end() for match in _LINE_END.finditer(self.text)))

    @property
    def line_count(self) -> int:
        return len(self._starts)

    @cached_property
    def newline(self) -> str:
        """The line end the file uses first; a line feed for a file of one line."""
        match = _LINE_END.search(self.text)
        return match.group() if match else "\n"

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree, or None while the text does not parse."""
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError):
            return None

    def line(self, number: int) -> str:
        """Line `number` (1-based) without its line end; empty beyond the file."""
        if not 1 <= number <= self.line_count:
            return ""
        end = self._starts[number] if number < self.line_count else len(self.text)
        return self.text[self._starts[number - 1] : end].rstrip("\r\n")

    def indentation(self, number: int) -> str:
        line = self.line(number)
        return line[: len(line) - len(line.lstrip(" \t\f"))]

    def offset(self, line: int, column: int) -> int:
        """Index into `text` of a (1-based line, code-point column) position, clamped to the line."""
        return self._starts[line - 1] + min(column, len(self.line(line)))

    def position(self, offset: int) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1]

    def slice(self, span: Span) -> str:
        return self.text[self.offset(*span.start) : self.offset(*span.end)]

    def line_span(self, line: int) -> Span:
        """The code of a line: from its first character that is not blank to its last."""
        text = self.line(line)
        return Span(self.path, line, len(self.indentation(line)), line, len(text.rstrip()))

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.excepthandler) -> Span:
        """Where a node of `tree` stands."""
        end_line = node.end_lineno or node.lineno
        return Span(
            self.path,
            node.lineno,
            self.column_from_bytes(node.lineno, node.col_offset),
            end_line,
            self.column_from_bytes(end_line, node.end_col_offset or 0),
        )

    def column_from_bytes(self, line: int, column: int) -> int:
        """Code-point column of a UTF-8 byte column, as `ast` and code objects count."""
        text = self.line(line)
        if text.isascii():
            return min(column, len(text))
        return len(text.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "ignore"))

    def column_to_utf16(self, line: int, column: int) -> int:
        text = self.line(line)
        if text.isascii():
            return min(column, len(text))
        return len(text[:column].encode("utf-16-le", "surrogatepass")) // 2

    def column_from_utf16(self, line: int, column: int) -> int:
        text = self.line(line)
        if text.isascii():
            return min(column, len(text))
        units = text.encode("utf-16-le", "surrogatepass")[: 2 * column]
        return len(units.decode("utf-16-le", "ignore"))
