"""The command `forwardlens.entries`: `[{uri, target?}]`; what could be run to profile a file, likeliest first.

Each is `{entry, kind, line?}`. `kind` says where it comes from: `file` and `workspace` are functions that build the
model, `configured` is in pyproject.toml, `script` and `test` reach the code, `self` is the file itself.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forwardlens.config import ConfigError, entry_candidates, load_settings
from forwardlens.lsp.arguments import required_text, text_argument
from forwardlens.lsp.commands import ENTRIES
from forwardlens.lsp.runs import entry_name, matching_entries
from forwardlens.lsp.server import ForwardLensServer
from forwardlens.source.callers import Caller, OutlineCache, find_callers
from forwardlens.source.entries import forward_methods, likely_entries
from forwardlens.source.outline import SCRIPT
from forwardlens.source.paths import path_from_uri, path_key, relative_name
from forwardlens.source.text import SourceText

logger = logging.getLogger(__name__)

_MOST_OF_A_KIND = 20
_KINDS = {"entry": "workspace", "script": "script", "test": "test"}

Candidate = dict[str, object]


@dataclass(frozen=True, slots=True)
class _Question:
    path: str
    source: SourceText | None
    target: str | None
    folder: Path
    unsaved: Mapping[str, str]
    outlines: OutlineCache


def register(server: ForwardLensServer) -> None:
    @server.command(ENTRIES)
    async def entries(*arguments: Any) -> list[Candidate]:
        path = path_from_uri(required_text(arguments, "uri"))
        if path is None:
            return []
        session = server.session
        question = _Question(
            path,
            session.current_source(path),
            text_argument(arguments, "target"),
            server.folder_of(path),
            session.overlays(),
            server.outlines,
        )
        # A folder can have thousands of files.
        return await server.in_thread(lambda: _candidates(question))


def _candidates(asked: _Question) -> list[Candidate]:
    found: dict[object, Candidate] = {}
    for candidate in (*_of_file(asked), *_configured(asked.folder), *_reaching(asked)):
        found.setdefault(candidate["entry"], candidate)
    if not found:
        found = {name: {"entry": name, "kind": "workspace"} for name in entry_candidates(asked.folder)}
    itself = relative_name(asked.path, str(asked.folder))
    return [*found.values(), {"entry": itself, "kind": "self"}]


def _of_file(asked: _Question) -> Iterator[Candidate]:
    for entry in matching_entries(likely_entries(asked.source), asked.target) if asked.source else ():
        name = entry_name(asked.path, entry, asked.folder)
        yield {"entry": name, "kind": "file", "line": entry.header.line}


def _configured(folder: Path) -> Iterator[Candidate]:
    try:
        names = tuple(load_settings(folder).entries)
    except ConfigError:  # the run itself says what is wrong with it
        return
    for name in names:
        yield {"entry": name, "kind": "configured"}


def _reaching(asked: _Question) -> Iterator[Candidate]:
    """What other files, and the tests of this one, do with the forwards of this file."""
    if asked.source is None:
        return
    target = (asked.target or "").partition(".")[0]
    classes = [target] if target else [forward.class_name for forward in forward_methods(asked.source)]
    callers = find_callers(asked.folder, asked.path, classes, asked.outlines, asked.unsaved)
    if not callers.complete:
        logger.info("not all of %s was searched for what reaches %s", asked.folder, asked.path)
    for kind in _KINDS:
        some = [caller for caller in callers.found if caller.kind == kind and not _is_told(asked, caller)]
        for caller in some[:_MOST_OF_A_KIND]:
            yield {"entry": _entry(caller, asked.folder), "kind": _KINDS[kind], "line": caller.line}


def _is_told(asked: _Question, caller: Caller) -> bool:
    """The file's own functions and the file itself have rows of their own."""
    return caller.kind != "test" and path_key(caller.path) == path_key(asked.path)


def _entry(caller: Caller, folder: Path) -> str:
    file = relative_name(caller.path, str(folder))
    if caller.name == SCRIPT:
        return _module(Path(caller.path), folder) or file
    return f"{file}{'::' if caller.kind == 'test' else ':'}{caller.name}"


def _module(script: Path, folder: Path) -> str | None:
    """A script inside a package as `-m package.module`, as its relative imports want it; None for any other."""
    root = script.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    if root == script.parent or root not in (folder, folder / "src"):
        return None
    name = ".".join(script.relative_to(root).with_suffix("").parts)
    return f"-m {name.removesuffix('.__main__')}"
