"""`initialize`: what the client can do, and what it tells us from the start."""

from __future__ import annotations

import logging
from typing import Any, cast

from lsprotocol import types

from forwardlens.lsp.client import ClientFeatures, as_mapping, parse_settings
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.runner.request import RunFailedError

logger = logging.getLogger(__name__)


def register(server: ForwardLensServer) -> None:
    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        values = as_mapping(params.initialization_options)
        server.features = ClientFeatures.of(params.capabilities, values)
        if not server.features.action_literals:
            # The options may only be sent to clients that know code actions as more than commands.
            cast("Any", server.protocol.fm).feature_options.pop(types.TEXT_DOCUMENT_CODE_ACTION, None)
        server.session.trusted = values.get("trusted") is not False
        try:
            server.session.initial_settings = parse_settings(values.get("settings", values))
        except RunFailedError as error:
            logger.warning("initializationOptions: %s", error)
