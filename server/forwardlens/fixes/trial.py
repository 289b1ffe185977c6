"""Running a fix before it is offered."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from forwardlens.model import Edit, Finding, Fix, Verification
from forwardlens.rules import engine
from forwardlens.runner.process import Worker
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import try_edit
from forwardlens.source.edits import OverlappingEditsError, apply_edits
from forwardlens.source.text import SourceText

Texts = Mapping[str, SourceText]
Owned = tuple[Finding, Fix]


@dataclass(frozen=True, slots=True)
class Together:
    """Proven safe fixes that hold on top of each other. `verified` is what trying all of them at once showed, None
    where some had to be left out.
    """

    fixes: tuple[Owned, ...] = ()
    verified: Verification | None = None


def worth_trying(fix: Fix) -> bool:
    """Whether to try it without being asked."""
    return bool(fix.edits) and fix.applicability != "display" and not fix.slow_to_try


def is_refuted(fix: Fix) -> bool:
    return fix.verified is not None and fix.verified.refuted


def is_no_fault(finding: Finding) -> bool:
    """Whether trying the fixes of a finding showed that the program does better with what was found."""
    slower = [fix.verified is not None and fix.verified.outcome == "slower" for fix in finding.fixes]
    return engine.rule_named(finding.rule).needs_gain and bool(slower) and all(slower)


def is_kept(fix: Fix) -> bool:
    return fix.verified is not None and fix.verified.holds


def apply_fix(sources: Texts, fix: Fix) -> dict[str, SourceText]:
    """The files that `fix` changes, after it. Raises `OverlappingEditsError`.

    The same edit twice, such as an import that two fixes need, is one edit.
    """
    by_file: dict[str, list[Edit]] = {}
    for edit in dict.fromkeys(fix.edits):
        by_file.setdefault(edit.file, []).append(edit)
    return {path: apply_edits(sources[path], edits) for path, edits in by_file.items()}


def try_fix(
    worker: Worker, request: RunRequest, sources: Texts, finding: Finding, fix: Fix, cancelled: threading.Event
) -> Fix:
    """The fix with the outcome of running it on `sources`; unchanged if there is nothing to run."""
    if not worth_trying(fix):
        return fix
    after = apply_fix(sources, fix)
    return replace(fix, verified=_run(worker, request, sources, after, _drops_graph(finding), cancelled))


def try_together(
    worker: Worker, request: RunRequest, sources: Texts, candidates: Sequence[Owned], cancelled: threading.Event
) -> Together:
    """Which of the proven fixes hold together; the first ones win where two touch the same text.

    Fixes that are right alone may not be together: two may choose the same new name. All at once is tried first,
    because that is one run and nearly always enough.
    """
    joined = _fitting(sources, candidates)
    if len(joined) <= 1:
        return Together(joined, joined[0][1].verified if joined else None)
    whole = replace(joined[0][1], edits=tuple(edit for _, fix in joined for edit in fix.edits))
    drops_graph = any(_drops_graph(finding) for finding, _ in joined)
    tried = _run(worker, request, sources, apply_fix(sources, whole), drops_graph, cancelled)
    if tried.holds:
        return Together(joined, tried)
    stack = Stack(worker, request, sources, cancelled)
    return Together(tuple((f, x) for f, x in joined if (pushed := stack.push(f, x)) is not None and is_kept(pushed)))


def _fitting(sources: Texts, candidates: Sequence[Owned]) -> tuple[Owned, ...]:
    """The candidates without those that touch the text of an earlier one."""
    fitting: list[Owned] = []
    for finding, fix in candidates:
        edits = (*(edit for _, other in fitting for edit in other.edits), *fix.edits)
        try:
            apply_fix(sources, replace(fix, edits=edits))
        except OverlappingEditsError:
            continue
        fitting.append((finding, fix))
    return tuple(fitting)


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
        tried = _run(self._worker, self._request, before, after, _drops_graph(finding), self._cancelled)
        if tried.holds:
            self._edits, self.texts = together.edits, after
        return replace(fix, verified=tried)


def try_all(
    worker: Worker,
    request: RunRequest,
    before: Texts,
    after: Texts,
    applied: Sequence[Owned],
    cancelled: threading.Event,
) -> Verification:
    """The program after all applied fixes against the one before the first of them."""
    drops_graph = any(_drops_graph(finding) for finding, _ in applied)
    return _run(worker, request, before, after, drops_graph, cancelled)


def _drops_graph(finding: Finding) -> bool:
    return engine.rule_named(finding.rule).drops_graph


def _run(
    worker: Worker,
    request: RunRequest,
    before: Texts,
    after: Texts,
    drops_graph: bool,
    cancelled: threading.Event,
) -> Verification:
    old = {path: source.text for path, source in before.items()}
    new = {**old, **{path: source.text for path, source in after.items()}}
    return try_edit(worker, request, old, new, graph_may_vanish=drops_graph, cancelled=cancelled)
