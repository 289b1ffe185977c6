"""What the report view draws: the JSON report, and where its lines are in the editor now."""

from __future__ import annotations

from typing import Any

from forwardlens.lsp.session import Run, Session
from forwardlens.report.formats.json import document
from forwardlens.report.record import Report
from forwardlens.source.paths import path_key, uri_key

ReportData = dict[str, Any]


def report_data(session: Session, uri: str | None) -> ReportData | None:
    """The report of a file's run, or of the latest one; None if there is none.

    `files` maps each file of the report to its URI; `places` gives each of its `lines` the 0-based line where it
    stands now, null if it was edited or deleted.
    """
    run = session.runs.get(uri_key(uri)) if uri is not None else _latest(session)
    if run is None:
        return None
    result = run.result
    report = Report(run.folder, result.profile, result.findings, dict(run.result.sources), result.errors)
    paths = {source.path: key for key, source in run.measured.items()}
    return {
        **document(report),
        "stale": session.is_stale(run),
        "verified": run.verified,
        "files": {report.name_of(path): session.uri_of(key, path) for path, key in paths.items()},
        "places": [_present_line(session, run, cost.span.file, cost.span.line) for cost in result.profile.lines],
    }


def _latest(session: Session) -> Run | None:
    return next(reversed(session.runs.values()), None)


def _present_line(session: Session, run: Run, file: str, line: int) -> int | None:
    view = session.view(path_key(file))
    if view is None or view.run is not run:
        return None
    now = view.line(line)
    return None if now is None else now - 1
