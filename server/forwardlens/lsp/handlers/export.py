"""The request `forwardlens/export`: `{uri?, format}`; the run as the text of a file. Null without a run."""

from __future__ import annotations

from typing import Any

from pygls.exceptions import JsonRpcInvalidParams

from forwardlens.lsp.arguments import required_text, text_argument
from forwardlens.lsp.reports import make_report, run_of
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.report.formats import format_names, load_format


def register(server: ForwardLensServer) -> None:
    @server.feature("forwardlens/export")
    async def export(params: Any) -> str | None:
        name = required_text([params], "format")
        if name not in format_names():
            raise JsonRpcInvalidParams(f"no report format '{name}'; there are {', '.join(format_names())}")
        run = run_of(server.session, text_argument([params], "uri"))
        return None if run is None else await server.in_thread(lambda: load_format(name).render(make_report(run)))
