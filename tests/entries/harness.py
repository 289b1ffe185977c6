"""Profiling a small project and looking at what ran."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from forwardlens.attribution.attribute import attribute
from forwardlens.model import Profile, Verification
from forwardlens.runner.process import Worker
from forwardlens.runner.request import Progress, RunRequest
from forwardlens.runner.runner import record, start_worker, try_edit

NEVER = threading.Event()


def quiet(_: Progress) -> None:
    return None


class Bench:
    """A worker that is started for the first request."""

    def __init__(self) -> None:
        self._worker: Worker | None = None

    def worker(self, request: RunRequest) -> Worker:
        if self._worker is None:
            self._worker = start_worker(request, quiet, NEVER)
        return self._worker

    def run(self, request: RunRequest) -> Profile:
        return attribute(record(self.worker(request), request, quiet, NEVER), request.entry)

    def profile(self, folder: Path, files: Mapping[str, str], entry: str, **options: Any) -> Profile:
        """Write `files` and profile `entry` as quickly as possible."""
        write(folder, files)
        return self.run(RunRequest(entry, folder, iterations=1, warmup=1, **options))

    def try_edit(self, folder: Path, files: Mapping[str, str], entry: str, after: Mapping[str, str]) -> Verification:
        """Run `entry` with the texts `after` against what is on disk."""
        write(folder, files)
        request = RunRequest(entry, folder)
        before = {str(folder / name): (folder / name).read_text(encoding="utf-8") for name in after}
        edited = {str(folder / name): text for name, text in after.items()}
        return try_edit(self.worker(request), request, before, edited, graph_may_vanish=False, cancelled=NEVER)

    def close(self) -> None:
        if self._worker is not None:
            self._worker.close()


def write(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def calls(profile: Profile) -> dict[str, int]:
    """Runs of each expression of one line, by its text."""
    lines = {path: text.split("\n") for path, text in profile.texts.items()}
    return {
        lines[cost.span.file][cost.span.line - 1][cost.span.column : cost.span.end_column]: cost.calls
        for cost in profile.lines
        if cost.span.line == cost.span.end_line
    }


def notes(profile: Profile) -> dict[str, str]:
    return {error.kind: error.message for error in profile.errors}
