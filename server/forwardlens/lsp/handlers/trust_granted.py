"""The notification `forwardlens/trustGranted`: from now on the workspace's code may be run on command."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature("forwardlens/trustGranted")
    def trust_granted(_params: Any) -> None:
        server.session.trusted = True
