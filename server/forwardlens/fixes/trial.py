"""Running a fix before it is offered."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace

from forwardlens.model import Edit, Finding, Fix
from forwardlens.rules import engine
from forwardlens.runner.process import Worker
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import try_edit
from forwardlens.source.edits import OverlappingEditsError, apply_edits
from forwardlens.source.text import SourceText

Texts = Mapping[str, SourceText]


def worth_trying(fix: Fix) -> bool:
    return bool(fix.edits) and fix.applicability != "display"


def is_refuted(fix: Fix) -> bool:
    """It was run and the program gave something else, or nothing."""
    return fix.verified is not None and fix.verified.outcome in ("differs", "raises")


def is_kept(fix: Fix) -> bool:
    """Equal and not slower. A fix without gain here is kept: its cost may only show on another device."""
    return fix.verified is not None and fix.verified.outcome in ("equal", "no-gain")


def apply_fix(sources: Texts, fix: Fix) -> dict[str, SourceText]:
    """The files that `fix` changes, after it. Raises `OverlappingEditsError`."""
    by_file: dict[str, list[Edit]] = {}
    for edit in fix.edits:
        by_file.setdefault(edit.file, []).append(edit)
    return {path: apply_edits(sources[path], edits) for path, edits in by_file.items()}


def try_fix(
    worker: Worker, request: RunRequest, sources: Texts, finding: Finding, fix: Fix, cancelled: threading.Event
) -> Fix:
    """The fix with the outcome of running it on `sources`; unchanged if there is nothing to run."""
    if not worth_trying(fix):
        return fix
    after = apply_fix(sources, fix)
    return _run(worker, request, sources, after, finding, fix, cancelled)


class Stack:
    """Fixes applied one after the other, each tried on top of those that held."""

    def __init__(self, worker: Worker, request: RunRequest, sources: Texts, cancelled: threading.Event) -> None:
        self._worker, self._request, self._sources, self._cancelled = worker, request, sources, cancelled
        self._edits: tuple[Edit, ...] = ()
        self.texts: dict[str, SourceText] = {}

    def push(self, finding: Finding, fix: Fix) -> Fix | None:
        """The fix with its outcome, now part of `texts` if it held; None if it overlaps an earlier one."""
        together = replace(fix, edits=(*self._edits, *fix.edits))
        try:
            after = apply_fix(self._sources, together)
        except OverlappingEditsError:
            return None
        before = {**self._sources, **self.texts}
        tried = _run(self._worker, self._request, before, after, finding, fix, self._cancelled)
        if is_kept(tried):
            self._edits, self.texts = together.edits, after
        return tried


def _run(
    worker: Worker,
    request: RunRequest,
    before: Texts,
    after: Texts,
    finding: Finding,
    fix: Fix,
    cancelled: threading.Event,
) -> Fix:
    old = {path: source.text for path, source in before.items()}
    new = {**old, **{path: source.text for path, source in after.items()}}
    drops_graph = engine.rule_named(finding.rule).drops_graph
    outcome = try_edit(worker, request, old, new, graph_may_vanish=drops_graph, cancelled=cancelled)
    return replace(fix, verified=outcome)
