"""What the report view draws: a run as JSON values, and where its code is in the editor now."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.convert import Encoding, plain_range, to_range
from forwardlens.lsp.session import Run, Session
from forwardlens.model import Span
from forwardlens.report.compare import compare
from forwardlens.report.formats.json import document
from forwardlens.report.record import Report
from forwardlens.report.view import comparison_view, timeline_view
from forwardlens.source.paths import path_key, uri_key

ReportData = dict[str, Any]
PlaceData = dict[str, Any]


def run_of(session: Session, uri: str | None) -> Run | None:
    """A file's run, or the latest one."""
    if uri is not None:
        return session.runs.get(uri_key(uri))
    return max(session.runs.values(), key=lambda run: run.number, default=None)


def make_report(run: Run) -> Report:
    result = run.result
    return Report(run.folder, result.profile, result.findings, dict(result.sources), result.errors, result.rejected)


def report_data(session: Session, uri: str | None) -> ReportData | None:
    """The report of a file's run, or of the latest one; None if there is none.

    `run` tells runs apart, `request` is what to profile for another one. `files` maps each file of the report to its
    URI; `places` gives each of its `lines` the 0-based line where it stands now, null if it was edited or deleted.
    `comparison` is with the run of the same forward before this one, null if this was the first.
    """
    run = run_of(session, uri)
    if run is None:
        return None
    report = make_report(run)
    profile = run.result.profile
    paths = {source.path: key for key, source in run.measured.items()}
    return {
        **document(report),
        "run": run.number,
        "request": {"uri": run.asked.uri, "target": run.asked.target},
        "stale": session.is_stale(run),
        "verified": run.verified,
        "files": {report.name_of(path): session.uri_of(key, path) for path, key in paths.items()},
        "places": [_present_line(session, run, cost.span.file, cost.span.line) for cost in profile.lines],
        "comparison": None if run.earlier is None else comparison_view(compare(run.earlier, profile), report),
    }


def timeline_data(run: Run) -> ReportData | None:
    """A run in order of time, and which run it is. It reads no session, so any thread may do it."""
    timeline = run.result.profile.timeline
    return None if timeline is None else {"run": run.number, **timeline_view(timeline, make_report(run))}


def present_place(session: Session, run: Run, span: Span, encoding: Encoding) -> PlaceData | None:
    """Where a place that the report names is now: its exact range, else its line, else its file alone.

    An empty span stands for its line.
    """
    report = make_report(run)
    source = next((source for source in run.measured.values() if report.name_of(source.path) == span.file), None)
    if source is None:
        return None
    key = path_key(source.path)
    place: PlaceData = {"uri": session.uri_of(key, source.path), "range": None}
    view = session.view(key)
    if view is None or view.run is not run:
        return place
    line = view.line(span.line)
    exact = None if span.start == span.end else view.span(span)
    now = exact or (None if line is None else view.current.line_span(line))
    return place if now is None else place | {"range": plain_range(to_range(view.current, now, encoding))}


def _present_line(session: Session, run: Run, file: str, line: int) -> int | None:
    view = session.view(path_key(file))
    if view is None or view.run is not run:
        return None
    now = view.line(line)
    return None if now is None else now - 1
