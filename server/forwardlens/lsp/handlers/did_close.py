"""`textDocument/didClose`: from now on the file on disk is the text."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        server.session.close_document(params.text_document.uri)
        server.publish()
