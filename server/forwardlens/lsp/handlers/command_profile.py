"""The command `forwardlens.profile`: `[{uri, target?, entry?}]`; its result is the run's summary."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import required_text, text_argument
from forwardlens.lsp.commands import PROFILE
from forwardlens.lsp.runs import Summary, profile
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.lsp.session import Asked


def register(server: ForwardLensServer) -> None:
    @server.command(PROFILE)
    async def run(*arguments: Any) -> Summary:
        asked = Asked(
            required_text(arguments, "uri"),
            text_argument(arguments, "target"),
            text_argument(arguments, "entry"),
        )
        return await profile(server, asked)
