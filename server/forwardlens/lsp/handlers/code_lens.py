"""`textDocument/codeLens`: what can be profiled, and what the last run said."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.lenses import available_lenses
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions())
    def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        return available_lenses(server, params.text_document.uri)
