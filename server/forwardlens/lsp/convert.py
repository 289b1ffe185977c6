"""The only place where positions change between our unit and the client's.

Ours: 1-based lines and code-point columns. The client's: 0-based lines, and columns in the unit that was agreed on.
"""

from __future__ import annotations

from collections.abc import Iterable

from lsprotocol import types

from forwardlens.model import Edit, Severity, Span
from forwardlens.source.text import SourceText

Encoding = types.PositionEncodingKind | str

_SEVERITIES: dict[Severity, types.DiagnosticSeverity] = {
    "warning": types.DiagnosticSeverity.Warning,
    "info": types.DiagnosticSeverity.Information,
    "hint": types.DiagnosticSeverity.Hint,
}


def to_position(source: SourceText, line: int, column: int, encoding: Encoding) -> types.Position:
    if encoding == types.PositionEncodingKind.Utf32:
        units = min(column, len(source.line(line)))
    elif encoding == types.PositionEncodingKind.Utf8:
        units = len(source.line(line)[:column].encode("utf-8", "surrogatepass"))
    else:
        units = source.column_to_utf16(line, column)
    return types.Position(line - 1, units)


def from_position(source: SourceText, position: types.Position, encoding: Encoding) -> tuple[int, int]:
    line = position.line + 1
    if encoding == types.PositionEncodingKind.Utf32:
        return line, min(position.character, len(source.line(line)))
    if encoding == types.PositionEncodingKind.Utf8:
        return line, source.column_from_bytes(line, position.character)
    return line, source.column_from_utf16(line, position.character)


def changed(text: str, change: types.TextDocumentContentChangeEvent, encoding: Encoding) -> str:
    """A client's text after one change. What lies beyond a line is its end, what lies beyond the text is its end."""
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return change.text
    source = SourceText("", text)
    start, end = (_offset(source, position, encoding) for position in (change.range.start, change.range.end))
    return text[:start] + change.text + text[end:]


def _offset(source: SourceText, position: types.Position, encoding: Encoding) -> int:
    if position.line >= source.line_count:
        return len(source.text)
    return source.offset(*from_position(source, position, encoding))


def to_range(source: SourceText, span: Span, encoding: Encoding) -> types.Range:
    return types.Range(to_position(source, *span.start, encoding), to_position(source, *span.end, encoding))


def plain_range(where: types.Range) -> dict[str, dict[str, int]]:
    """As JSON, for messages of our own."""
    return {
        name: {"line": position.line, "character": position.character}
        for name, position in (("start", where.start), ("end", where.end))
    }


def to_text_edits(source: SourceText, edits: Iterable[Edit], encoding: Encoding) -> list[types.TextEdit]:
    return [
        types.TextEdit(
            types.Range(to_position(source, *edit.start, encoding), to_position(source, *edit.end, encoding)),
            edit.text,
        )
        for edit in edits
    ]


def end_of_line(source: SourceText, line: int, encoding: Encoding) -> types.Position:
    return to_position(source, line, len(source.line(line)), encoding)


def to_severity(severity: Severity) -> types.DiagnosticSeverity:
    return _SEVERITIES[severity]


def overlaps(span: Span, first: tuple[int, int], last: tuple[int, int]) -> bool:
    """Whether a span touches what is selected; a cursor at its end still touches it."""
    return span.start <= last and first <= span.end
