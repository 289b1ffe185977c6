"""The real server around an engine that reads its measurements from comments, so that tests need no torch.

A line ending in `#$ {...}` was measured: `expr` is the expression (default: the line's code), `ms` its time, `calls`
how often it ran. With `rule` it carries a finding, with `fix` that finding has a fix that replaces the expression, or
everything from there to the end of the expression `lines` - 1 lines below.
A line `#! {...}` says what the run does: `fail`, `crash`, `print`, `skip` (a file it does not reach), `block`
("profile" or "verify", until it is cancelled and half a second longer), `median` (what it measures, in milliseconds),
`smaller` (so many findings are not shown), `note` (what trying the fixes has to tell).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from forwardlens import lsp
from forwardlens.config import Settings
from forwardlens.model import (
    SMALLER_FINDINGS,
    Edit,
    Environment,
    ExpressionCost,
    Finding,
    Fix,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    Related,
    RunError,
    Span,
    Verification,
)
from forwardlens.runner.request import OnProgress, Progress, RunFailedError, RunRequest
from forwardlens.source.text import SourceText
from forwardlens.workflow import Result

MEDIAN_MS = 10.0


class FakeEngine:
    """Leaves a file `overlap` in the workspace if it is asked for two measurements at once."""

    def __init__(self) -> None:
        self._measuring = threading.Lock()

    def prepare(self, python: str | None, folder: Path, /) -> None:
        (folder / "prepared").write_text(python or "")

    def profile(
        self, request: RunRequest, settings: Settings, on_progress: OnProgress, cancelled: threading.Event, /
    ) -> Result:
        if not self._measuring.acquire(blocking=False):
            (request.workspace / "overlap").touch()
            self._measuring.acquire()
        try:
            return self._profile(request, settings, on_progress, cancelled)
        finally:
            self._measuring.release()

    def _profile(
        self, request: RunRequest, settings: Settings, on_progress: OnProgress, cancelled: threading.Event
    ) -> Result:
        sources = _sources(request)
        on_progress(Progress("start", "starting a worker", 0.0))
        _obey(sources, "profile", cancelled)
        on_progress(Progress("time", "timing", 0.5))
        asked = {
            **asdict(request),
            "workspace": str(request.workspace),
            "cwd": request.cwd and str(request.cwd),
            "overlays": sorted(request.overlays),
        }
        marks = [mark for source in sources.values() for mark in _marks(source)]
        orders = [order for source in sources.values() for order in _orders(source)]
        median = next((order["median"] for order in orders if "median" in order), MEDIAN_MS)
        profile = Profile(
            entry=request.entry,
            target=request.target,
            environment=Environment("3.11", "2.13", "linux", "cpu", "a CPU", None, None, 1, True, False),  # noqa: FBT003
            forward=Forward(Quantiles(median, 0.9 * median, 1.1 * median, 30), None, None, None, "dispatch"),
            grad=GradUse(False, False, False, False, False),  # noqa: FBT003
            unattributed_share=0.1,
            lines=tuple(_cost(source, span, mark) for source, span, mark in marks),
            texts={path: source.text for path, source in sources.items()},
            errors=(RunError("request", json.dumps({**asked, "threshold": settings.threshold})),),
        )
        findings = tuple(_finding(source, span, mark) for source, span, mark in marks if "rule" in mark)
        smaller = [order["smaller"] for source in sources.values() for order in _orders(source) if "smaller" in order]
        notes = tuple(RunError(SMALLER_FINDINGS, "and smaller ones", count=number) for number in smaller)
        return Result(request, profile, sources, findings, notes)

    def verify(self, result: Result, on_progress: OnProgress, cancelled: threading.Event, /) -> Result:
        on_progress(Progress("verify", "trying fixes", 0.9))
        _obey(result.sources, "verify", cancelled)
        notes = [order["note"] for source in result.sources.values() for order in _orders(source) if "note" in order]
        return replace(
            result,
            errors=(*result.errors, *(RunError("verify", note) for note in notes)),
            findings=tuple(
                replace(finding, fixes=tuple(_tried(fix, str(finding.evidence["outcome"])) for fix in finding.fixes))
                for finding in result.findings
            ),
        )


def _sources(request: RunRequest) -> dict[str, SourceText]:
    sources = {str(path): SourceText.read(path) for path in sorted(request.workspace.rglob("*.py"))}
    for path, text in request.overlays.items():
        sources[path] = SourceText(path, text)
    skipped = {order.get("skip") for source in sources.values() for order in _orders(source)}
    return {path: source for path, source in sources.items() if Path(path).name not in skipped}


def _orders(source: SourceText) -> Iterator[dict[str, Any]]:
    for line in range(1, source.line_count + 1):
        found = re.match(r"#! (\{.*\})$", source.line(line))
        if found:
            yield json.loads(found.group(1))


def _obey(sources: Mapping[str, SourceText], stage: str, cancelled: threading.Event) -> None:
    for source in sources.values():
        for order in _orders(source):
            _act(order, source, stage, cancelled)


def _act(order: dict[str, Any], source: SourceText, stage: str, cancelled: threading.Event) -> None:
    if order.get("print"):
        print("noise")
        os.write(1, b"more noise\n")
        child = "import sys; print('noise of a child', sys.stdin.read())"
        subprocess.run([sys.executable, "-c", child], check=True)
    if order.get("crash") == stage:
        raise ZeroDivisionError("a bug in the engine")
    if order.get("block") == stage:
        print("blocked", file=sys.stderr, flush=True)
        cancelled.wait()
        threading.Event().wait(0.5)
        Path(source.path).with_name("stopped").touch()
    if cancelled.is_set():
        raise RunFailedError("cancelled", "cancelled")
    if stage == "profile" and "fail" in order:
        fail = order["fail"]
        raise RunFailedError(fail["kind"], fail["message"], source.path, fail.get("line"), trace="the traceback")


def _marks(source: SourceText) -> Iterator[tuple[SourceText, Span, dict[str, Any]]]:
    for line in range(1, source.line_count + 1):
        code, mark, values = source.line(line).partition("#$ ")
        if mark:
            found: dict[str, Any] = json.loads(values)
            expression = found.get("expr", code.strip())
            column = code.index(expression)
            yield source, Span(source.path, line, column, line, column + len(expression)), found


def _cost(source: SourceText, span: Span, mark: dict[str, Any]) -> ExpressionCost:
    ms, calls = mark["ms"], mark.get("calls", 1)
    op = OpCost("aten::embedding", calls, ms, ms, 0.0, 4096, ((4, 16),), 1, True)  # noqa: FBT003
    return ExpressionCost(span, "forward", calls, calls, ms, mark.get("total", ms), ms / MEDIAN_MS, 0.0, 0.0, 0, (op,))


def _finding(source: SourceText, span: Span, mark: dict[str, Any]) -> Finding:
    last = span.line + mark.get("lines", 1) - 1
    end = span.end if last == span.line else (last, source.line(last).index("  #$"))
    edits = (Edit(source.path, span.start, end, mark["fix"]),) if "fix" in mark else ()
    applicability = mark.get("applicability", "safe")
    reason = None if applicability == "safe" else "the order of the results may differ"
    fixes = (Fix("Look up all at once", applicability, edits, reason),) if edits else ()
    related = (Related(source.line_span(mark["related"]), "this loop"),) if "related" in mark else ()
    evidence = {"calls": mark.get("calls", 1), "outcome": mark.get("outcome", "equal")}
    severity = mark.get("severity", "warning")
    message = f"{source.slice(span)} costs {mark['ms']} ms"
    return Finding(mark["rule"], severity, message, span, mark["ms"] / MEDIAN_MS, evidence, related, fixes)


def _tried(fix: Fix, outcome: Any) -> Fix:
    speedup = 9.8 if outcome == "equal" else None
    applicability = "unsafe" if outcome in ("differs", "raises") else fix.applicability
    verified = Verification(outcome, 0.0, 10.0, 1.02, speedup, 9.0, 10.0, 20)
    return replace(fix, applicability=applicability, verified=verified)


if __name__ == "__main__":
    lsp.main(FakeEngine())
