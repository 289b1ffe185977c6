"""The command `forwardlens.entries`: `[{uri, target?}]`; what could be run to profile a file, likeliest first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from forwardlens.config import ConfigError, entry_candidates, load_settings
from forwardlens.lsp.arguments import required_text, text_argument
from forwardlens.lsp.commands import ENTRIES
from forwardlens.lsp.runs import entry_name, matching_entries
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.source.entries import likely_entries
from forwardlens.source.paths import path_from_uri
from forwardlens.source.text import SourceText

Candidate = dict[str, object]


def register(server: ForwardLensServer) -> None:
    @server.command(ENTRIES)
    async def entries(*arguments: Any) -> list[Candidate]:
        path = path_from_uri(required_text(arguments, "uri"))
        if path is None:
            return []
        target = text_argument(arguments, "target")
        source, folder = server.session.current_source(path), server.folder_of(path)
        return await server.in_thread(lambda: _candidates(path, source, target, folder))


def _candidates(path: str, source: SourceText | None, target: str | None, folder: Path) -> list[Candidate]:
    """Those of the file, then the configured ones; only if there is neither, the folder's files are searched."""
    found: dict[str, Candidate] = {}
    for entry in matching_entries(likely_entries(source), target) if source else ():
        name = entry_name(path, entry, folder)
        found[name] = {"entry": name, "kind": "file", "line": entry.header.line}
    for name in _configured(folder):
        found.setdefault(name, {"entry": name, "kind": "configured"})
    for name in () if found else entry_candidates(folder):
        found[name] = {"entry": name, "kind": "workspace"}
    return list(found.values())


def _configured(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(load_settings(folder).entries)
    except ConfigError:  # the run itself says what is wrong with it
        return ()
