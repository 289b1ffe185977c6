"""`textDocument/didOpen`."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        server.session.put_document(document.uri, document.version, document.text)
        server.publish()
