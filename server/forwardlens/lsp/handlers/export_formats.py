"""The request `forwardlens/exportFormats`: the files that a run can be exported as, `[{name, title, suffix}]`."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.server import ForwardLensServer
from forwardlens.report.formats import format_names, load_format


def register(server: ForwardLensServer) -> None:
    @server.feature("forwardlens/exportFormats")
    def export_formats(_params: Any) -> list[dict[str, str]]:
        formats = ((name, load_format(name)) for name in format_names())
        return [{"name": name, "title": item.title, "suffix": item.suffix} for name, item in formats]
