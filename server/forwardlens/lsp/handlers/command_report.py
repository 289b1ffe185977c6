"""The command `forwardlens.report`: `[{uri}]`; the same as the request `forwardlens/report`."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import text_argument
from forwardlens.lsp.commands import REPORT
from forwardlens.lsp.reports import ReportData, report_data
from forwardlens.lsp.server import ForwardLensServer


def register(server: ForwardLensServer) -> None:
    @server.command(REPORT)
    def report(*arguments: Any) -> ReportData | None:
        return report_data(server.session, text_argument(arguments, "uri"))
