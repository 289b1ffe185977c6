"""`workspace/didChangeConfiguration`: what is shown follows at once, what is measured from the next run on."""

from __future__ import annotations

from dataclasses import replace

from lsprotocol import types

from forwardlens.lsp.client import SECTION, ClientSettings, as_mapping, parse_settings
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.lsp.session import Run
from forwardlens.runner.request import RunFailedError


def register(server: ForwardLensServer) -> None:
    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def did_change_configuration(params: types.DidChangeConfigurationParams) -> None:
        try:
            if not server.features.configuration:
                server.session.initial_settings = _pushed(params)
            await _apply(server)
        except RunFailedError as error:
            server.show_error(error)
            return
        server.publish(refresh=True)


def _pushed(params: types.DidChangeConfigurationParams) -> ClientSettings:
    """Clients without `workspace/configuration` send the values along."""
    values = as_mapping(params.settings)
    return parse_settings(values.get(SECTION, values))


async def _apply(server: ForwardLensServer) -> None:
    session = server.session
    changed: dict[int, Run] = {}
    for key, view in list(session.views()):
        settings = await server.settings_for(session.uri_of(key, view.current.path))
        if id(view.run) not in changed and settings != view.run.settings:
            changed[id(view.run)] = replace(view.run, settings=settings)
    for key, run in session.runs.items():
        session.runs[key] = changed.get(id(run), run)
