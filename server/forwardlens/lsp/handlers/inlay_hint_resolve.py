"""`inlayHint/resolve`: the breakdown, when the user looks for it."""

from __future__ import annotations

from typing import Any, cast

from lsprotocol import types

from forwardlens.lsp.lines import tooltip
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.source.paths import uri_key


def register(server: ForwardLensServer) -> None:
    @server.feature(types.INLAY_HINT_RESOLVE)
    def inlay_hint_resolve(hint: types.InlayHint) -> types.InlayHint:
        data = cast("Any", hint.data)
        view = server.session.view(uri_key(data["uri"])) if data else None
        placed = next((p for p in view.lines if p.cost.line == data["line"]), None) if view else None
        if view is not None and placed is not None:
            hint.tooltip = tooltip(view, placed)
        return hint
