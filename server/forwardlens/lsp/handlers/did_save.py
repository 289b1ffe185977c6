"""`textDocument/didSave`: repeat the file's run, for users who asked for that."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.runs import profile
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.runner.request import RunFailedError
from forwardlens.source.paths import uri_key


def register(server: ForwardLensServer) -> None:
    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    async def did_save(params: types.DidSaveTextDocumentParams) -> None:
        uri = params.text_document.uri
        # Only what was run on command before: saving a file never runs code for the first time.
        run = server.session.runs.get(uri_key(uri))
        if run is None:
            return
        try:
            settings = await server.settings_for(uri)
        except RunFailedError as error:
            server.show_error(error, uri)
            return
        if settings.profile_on_save:
            await profile(server, run.asked)
