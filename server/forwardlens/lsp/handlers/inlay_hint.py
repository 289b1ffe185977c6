"""`textDocument/inlayHint`: the cost at the end of each costly line."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from forwardlens.lsp.convert import end_of_line
from forwardlens.lsp.lines import tooltip
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.lsp.session import PlacedLine, View
from forwardlens.report.labels import line_label
from forwardlens.source.paths import uri_key


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT, types.InlayHintOptions())
    def inlay_hint(params: types.InlayHintParams) -> list[types.InlayHint]:
        uri = params.text_document.uri
        view = server.session.view(uri_key(uri))
        if view is None or not view.run.settings.inlay_hints:
            return []
        first, last = params.range.start.line + 1, params.range.end.line + 1
        return list(_hints(server, uri, view, first, last))


def _hints(server: ForwardLensServer, uri: str, view: View, first: int, last: int) -> Iterator[types.InlayHint]:
    lazy = server.features.hint_tooltip_resolve
    for placed in view.lines:
        label = line_label(placed.cost, stale=placed.stale) if first <= placed.line <= last else None
        if label is not None:
            yield types.InlayHint(
                position=end_of_line(view.current, placed.line, server.encoding),
                label=label,
                tooltip=None if lazy else tooltip(view, placed),
                padding_left=True,
                data=_key(uri, placed) if lazy else None,
            )


def _key(uri: str, placed: PlacedLine) -> dict[str, object]:
    return {"uri": uri, "line": placed.cost.line}
