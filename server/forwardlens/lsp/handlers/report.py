"""The request `forwardlens/report`: `{uri?}`; what the report view draws, null without a run."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import text_argument
from forwardlens.lsp.reports import ReportData, report_data
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.feature("forwardlens/report")
    def report(params: Any) -> ReportData | None:
        return report_data(server.session, text_argument([params], "uri"))
