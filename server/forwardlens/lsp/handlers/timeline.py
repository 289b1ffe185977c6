"""The request `forwardlens/timeline`: `{uri?}`; a run in order of time, for the report view. Null without a run."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import text_argument
from forwardlens.lsp.reports import ReportData, run_of, timeline_data
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature("forwardlens/timeline")
    async def timeline(params: Any) -> ReportData | None:
        run = run_of(server.session, text_argument([params], "uri"))
        # Thousands of events, and nothing of the session: no reason to keep other requests waiting.
        return None if run is None else await server.in_thread(lambda: timeline_data(run))
