"""`initialized`: ask to be told when settings change."""

from __future__ import annotations

from lsprotocol import types
from pygls.capabilities import get_capability

from forwardlens.lsp.client import SECTION
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature(types.INITIALIZED)
    def initialized(_params: types.InitializedParams) -> None:
        dynamic = "workspace.did_change_configuration.dynamic_registration"
        if not get_capability(server.client_capabilities, dynamic, False):  # noqa: FBT003
            return
        method = types.WORKSPACE_DID_CHANGE_CONFIGURATION
        registration = types.Registration(method, method, {"section": SECTION})
        server.client_register_capability(types.RegistrationParams([registration]))
