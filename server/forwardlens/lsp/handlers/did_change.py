"""`textDocument/didChange`: costs and findings move with the text."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        # We asked for whole documents, so the last change is the text.
        document = params.text_document
        server.session.put_document(document.uri, document.version, params.content_changes[-1].text)
        server.publish()
