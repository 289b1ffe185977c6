"""The command `forwardlens.clear`: `[{uri?}]`; forget the run that a file belongs to, or every run."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import text_argument
from forwardlens.lsp.commands import CLEAR
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.command(CLEAR)
    def clear(*arguments: Any) -> None:
        server.session.forget_runs(text_argument(arguments, "uri"))
        server.publish(refresh=True)
