"""The command `forwardlens.profile`; its result is the run's summary.

Its argument is `{uri, target?, entry?, arguments?, environment?, cwd?, python?, workDoneToken?}`. The run's progress is
told under the token, which the client chooses.
"""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import required_text, table_argument, text_argument, texts_argument
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
            texts_argument(arguments, "arguments"),
            table_argument(arguments, "environment"),
            text_argument(arguments, "cwd"),
            text_argument(arguments, "python"),
        )
        return await profile(server, asked, text_argument(arguments, "workDoneToken"))
