"""`shutdown`: stop what is running."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.SHUTDOWN)
    def shutdown(_params: None) -> None:
        server.session.shut_down = True
        server.session.cancel()
