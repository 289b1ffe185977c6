"""`textDocument/hover`: what the line under the cursor costs; nothing on a line that costs nothing."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.convert import to_range
from forwardlens.lsp.lines import breakdown
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.source.paths import uri_key

_SMALLEST_SHARE = 0.001


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        view = server.session.view(uri_key(params.text_document.uri))
        line = params.position.line + 1
        placed = next((p for p in view.lines if p.line == line), None) if view else None
        if view is None or placed is None or placed.cost.total_share < _SMALLEST_SHARE:
            return None
        contents = breakdown(view, placed, markdown=server.features.hover_markdown)
        return types.Hover(contents, to_range(view.current, view.current.line_span(line), server.encoding))
