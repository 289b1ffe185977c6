"""`textDocument/didChange`: costs and findings move with the text."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.convert import changed
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        identity = params.text_document
        document = server.session.document(identity.uri)
        text = "" if document is None else document.client_text
        for change in params.content_changes:
            text = changed(text, change, server.encoding)
        server.session.put_document(identity.uri, identity.version, text)
        server.publish()
