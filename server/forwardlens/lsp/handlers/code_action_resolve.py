"""`codeAction/resolve`: the edit itself, made for the text of this moment."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.actions import with_edit
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.CODE_ACTION_RESOLVE)
    def code_action_resolve(action: types.CodeAction) -> types.CodeAction:
        return with_edit(server, action)
