"""`textDocument/codeAction`: the fixes of what was found, ways to say no to it, and profiling where no lens does it."""

from __future__ import annotations

from lsprotocol import types

from forwardlens.lsp.actions import FIX_ALL, available_actions
from forwardlens.lsp.lenses import profile_actions
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.source.paths import uri_key


def register(server: ForwardLensServer) -> None:
    options = types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix, FIX_ALL], resolve_provider=True)

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION, options)
    def code_action(params: types.CodeActionParams) -> list[types.CodeAction]:
        view = server.session.view(uri_key(params.text_document.uri))
        if not server.features.action_literals:
            return []
        fixes = [] if view is None else available_actions(server, view, params)
        return [*fixes, *profile_actions(server, params)]
