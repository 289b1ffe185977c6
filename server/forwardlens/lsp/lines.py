"""The breakdown of a measured line in the form a client can show."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.session import PlacedLine, View
from forwardlens.report.hover import line_markdown, line_text


def tooltip(view: View, placed: PlacedLine) -> types.MarkupContent:
    return breakdown(view, placed, markdown=True)


def breakdown(view: View, placed: PlacedLine, *, markdown: bool) -> types.MarkupContent:
    if markdown:
        text = line_markdown(placed.cost, view.measured, stale=placed.stale)
        return types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.MarkupContent(types.MarkupKind.PlainText, line_text(placed.cost, view.measured, stale=placed.stale))
