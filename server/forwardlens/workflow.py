"""From a request to findings with tried fixes: the one path that the command line and the editor share."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from forwardlens.attribution.attribute import IN_PLACE, attribute
from forwardlens.config import Settings
from forwardlens.fixes import trial
from forwardlens.model import Finding, Fix, Profile, RunError, Verification
from forwardlens.rules import engine
from forwardlens.runner.interpreter import choose_interpreter
from forwardlens.runner.pool import WorkerPool
from forwardlens.runner.request import OnProgress, Progress, RunFailedError, RunRequest
from forwardlens.runner.runner import record
from forwardlens.source.paths import is_inside
from forwardlens.source.text import SourceText

# Fixing one fault can uncover another, or make room for an edit that overlapped; this many looks find them all in
# every sample and case, and bound what an ill-behaved pair of rules could do.
MOST_ROUNDS = 4
_pool = WorkerPool()


@dataclass(frozen=True, slots=True)
class Result:
    """A run and what was found in it.

    `sources` are the texts that ran. `rejected` are fixes that were tried and changed what the program gives: they are
    told, not offered. `together` are the proven ones that hold on top of each other; None until they were tried.
    """

    request: RunRequest
    profile: Profile
    sources: Mapping[str, SourceText]
    findings: tuple[Finding, ...]
    errors: tuple[RunError, ...] = ()
    rejected: tuple[tuple[Finding, Fix], ...] = ()
    together: trial.Together | None = None


@dataclass(frozen=True, slots=True)
class FixReport:
    """All fixes of a program, each proven on top of the ones before. `texts` are the files that changed; `verified` is
    the program after all of them against the one before, run in turns. None where nothing was applied.
    """

    before: Result
    after: Result
    applied: tuple[tuple[Finding, Fix], ...]
    rejected: tuple[tuple[Finding, Fix], ...]
    texts: Mapping[str, SourceText]
    verified: Verification | None = None


def prepare(python: str | None, workspace: Path) -> None:
    """Have a worker ready for the next run in this workspace. It runs none of the user's code.

    An interpreter that lies in the workspace is some of it until the user has asked for a run.
    """
    engine.catalogue()  # so that the first run need not import it
    chosen = choose_interpreter(python, workspace).path
    # Its folder: the file itself is often a link to an interpreter elsewhere.
    _pool.prepare(chosen, after_run=is_inside(str(Path(chosen).parent), str(workspace)))


def profile(request: RunRequest, settings: Settings, on_progress: OnProgress, cancelled: threading.Event) -> Result:
    """Measure `request` and look for faults; blocks until done.

    Raises `RunFailedError`, also within a second of `cancelled` being set.
    """
    # Trying a fix must load the same packages anew as measuring did, so the result keeps them in its request.
    request = replace(request, include=tuple(dict.fromkeys((*settings.include, *request.include))))
    with _pool.worker(request, on_progress, cancelled, keep=True) as worker:
        recording = record(worker, request, on_progress, cancelled)
    on_progress(Progress("diagnose", "Looking for faults"))
    measured = attribute(recording, request.entry)
    sources = {path: _source(path, text) for path, text in measured.texts.items()}
    findings, failures = engine.find(measured, sources, settings.threshold, settings.rules)
    return Result(request, measured, sources, findings, (*measured.errors, *failures))


def verify(result: Result, on_progress: OnProgress, cancelled: threading.Event) -> Result:
    """The same result with every fix tried; one that differs or raises moves from its finding to `rejected`.

    A finding that is no fault where its fix is slower goes.

    Raises `RunFailedError` if the worker dies or `cancelled` is set.
    """
    if _in_place(result) or not any(trial.worth_trying(fix) for finding in result.findings for fix in finding.fixes):
        _pool.release(result.request, on_progress)
        return result
    try:
        return _tried(result, on_progress, cancelled)
    except RunFailedError as error:
        if error.kind != "entry":
            raise
        # It ran once, so the measurement stands.
        note = f"the program cannot be loaded a second time, so no fix was tried: {error.message}"
        return replace(result, errors=(*result.errors, RunError("verify", note, error.file, error.line)))


def _tried(result: Result, on_progress: OnProgress, cancelled: threading.Event) -> Result:
    findings: list[Finding] = []
    rejected, errors = list(result.rejected), list(result.errors)
    with _pool.worker(result.request, on_progress, cancelled, keep=False) as worker:
        for number, finding in enumerate(result.findings):
            on_progress(Progress("verify", f"Trying fixes for {finding.rule}", number / len(result.findings)))
            try:
                tried = [
                    trial.try_fix(worker, result.request, result.sources, finding, f, cancelled) for f in finding.fixes
                ]
            except RunFailedError as error:
                if error.kind != "device":
                    raise
                errors.append(RunError("verify", f"from {finding.rule} on no fix was tried: {error.message}"))
                findings += result.findings[number:]
                return replace(result, findings=(*findings,), rejected=(*rejected,), errors=(*errors,))
            after = replace(finding, fixes=tuple(fix for fix in tried if not trial.is_refuted(fix)))
            findings += [] if trial.is_no_fault(after) else [after]
            rejected += [(finding, fix) for fix in tried if trial.is_refuted(fix)]
        on_progress(Progress("verify", "Trying the fixes together", 1.0))
        together = trial.try_together(worker, result.request, result.sources, list(_proven(findings)), cancelled)
    return replace(result, findings=tuple(findings), rejected=tuple(rejected), together=together)


def _proven(findings: Sequence[Finding]) -> Iterator[tuple[Finding, Fix]]:
    """The first proven safe fix of each finding, the costliest finding first."""
    for finding in sorted(findings, key=lambda finding: -finding.share):
        fix = next((fix for fix in finding.fixes if fix.applicability == "safe" and fix.proven), None)
        if fix is not None:
            yield finding, fix


def fix_all(
    request: RunRequest,
    settings: Settings,
    on_progress: OnProgress,
    cancelled: threading.Event,
    rules: frozenset[str] | None = None,
    unsafe: bool = False,
) -> FixReport:
    """Apply every fix that proves itself, one on top of the other, until a fresh profile shows no more.

    `rules` limits which ones are tried. Files on disk stay as they are. Raises `RunFailedError`.
    """
    before = current = profile(request, settings, on_progress, cancelled)
    applied: list[tuple[Finding, Fix]] = []
    rejected: list[tuple[Finding, Fix]] = []
    # Not what the last profile saw: a file whose code was compiled in the meantime is not in it.
    fixed: dict[str, SourceText] = {}
    # As they were before any fix, also files that only run after one.
    originals = dict(before.sources)
    for _ in range(MOST_ROUNDS):
        # What fails beside others may hold in a later round, so the last one says what is rejected.
        chosen, rejected, texts = _fix_round(current, rules, unsafe, on_progress, cancelled)
        if not chosen:
            break
        applied += chosen
        fixed.update(texts)
        overlays = {**current.request.overlays, **{path: source.text for path, source in texts.items()}}
        current = profile(replace(request, overlays=overlays), settings, on_progress, cancelled)
        originals = {**current.sources, **originals}
    if not applied:
        return FixReport(before, current, (), tuple(rejected), {})
    before = replace(before, sources=originals)
    changed = {path: source for path, source in fixed.items() if source.text != originals[path].text}
    on_progress(Progress("verify", "Trying all fixes against the program as it was", 1.0))
    with _pool.worker(current.request, on_progress, cancelled, keep=False) as worker:
        tried = trial.try_all(worker, current.request, before.sources, changed, applied, cancelled)
    if tried.refuted:
        # Each was equal to the one before, but small differences add up.
        failed = tuple((finding, replace(fix, verified=tried)) for finding, fix in applied)
        return FixReport(before, before, (), (*failed, *rejected), {})
    return FixReport(before, current, tuple(applied), tuple(rejected), changed, tried)


def _fix_round(
    result: Result,
    rules: frozenset[str] | None,
    unsafe: bool,
    on_progress: OnProgress,
    cancelled: threading.Event,
) -> tuple[list[tuple[Finding, Fix]], list[tuple[Finding, Fix]], Mapping[str, SourceText]]:
    """Fixes of one result that hold on top of each other, those that failed, and the texts they give."""
    chosen: list[tuple[Finding, Fix]] = []
    refused: list[tuple[Finding, Fix]] = []
    candidates = [] if _in_place(result) else list(_candidates(result, rules, unsafe))
    if not candidates:
        return [], [], {}
    with _pool.worker(result.request, on_progress, cancelled, keep=True) as worker:
        stack = trial.Stack(worker, result.request, result.sources, cancelled)
        for number, (finding, fix) in enumerate(candidates):
            on_progress(Progress("verify", f"Trying: {fix.title}", number / len(candidates)))
            tried = stack.push(finding, fix)
            if tried is not None:
                (chosen if trial.is_kept(tried) else refused).append((finding, tried))
        return chosen, refused, stack.texts


def _in_place(result: Result) -> bool:
    """Whether the forward could not be repeated, so that no edit can be run against it."""
    return any(error.kind == IN_PLACE for error in result.profile.errors)


def _candidates(result: Result, rules: frozenset[str] | None, unsafe: bool) -> Iterator[tuple[Finding, Fix]]:
    """The first fix of each finding that may be applied without asking (or at all, with `unsafe`)."""
    # What is slow to try comes last, so that it is tried once and on the best that there is by then.
    for finding in sorted(result.findings, key=lambda finding: any(fix.slow_to_try for fix in finding.fixes)):
        if rules is not None and finding.rule not in rules:
            continue
        for fix in finding.fixes:
            if fix.applicability == "safe" or (unsafe and fix.applicability == "unsafe"):
                yield finding, fix
                break


def _source(path: str, text: str) -> SourceText:
    """The text that ran, with the encoding and byte-order mark of the file it came from."""
    try:
        return _one(SourceText.read(path).with_text(text))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return _one(SourceText(path, text))


@lru_cache(maxsize=16)
def _one(source: SourceText) -> SourceText:
    """The same object for the same text, so that a file's tree, and what is known of it, serves the next run too."""
    return source
