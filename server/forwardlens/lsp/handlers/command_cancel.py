"""The command `forwardlens.cancel`: `[{uri?}]`; stop the run of the file's folder, or every run."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import text_argument
from forwardlens.lsp.commands import CANCEL
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.source.paths import path_from_uri


def register(server: ForwardLensServer) -> None:
    @server.command(CANCEL)
    def cancel(*arguments: Any) -> bool:
        uri = text_argument(arguments, "uri")
        path = None if uri is None else path_from_uri(uri)
        return server.session.cancel(None if path is None else [server.folder_of(path)])
