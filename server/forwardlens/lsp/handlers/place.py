"""The request `forwardlens/place`: `{uri?, file, line, column, end_line, end_column}`, a place as a report names it.

Answers `{uri, range}`, where that code is now; the range is null if it was edited, the whole null if there is no such
file in the run.
"""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.arguments import number_argument, required_text, text_argument
from forwardlens.lsp.reports import PlaceData, present_place, run_of
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.model import Span


def register(server: ForwardLensServer) -> None:
    @server.feature("forwardlens/place")
    def place(params: Any) -> PlaceData | None:
        run = run_of(server.session, text_argument([params], "uri"))
        numbers = (number_argument([params], name) for name in ("line", "column", "end_line", "end_column"))
        span = Span(required_text([params], "file"), *numbers)
        return None if run is None else present_place(server.session, run, span, server.encoding)
