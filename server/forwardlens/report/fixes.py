"""What applying fixes gave: fix by fix, the whole forward, line by line, and which operators are gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from forwardlens.model import Finding, Fix
from forwardlens.report.compare import Comparison, LineChange, compare
from forwardlens.report.diff import unified_diff
from forwardlens.report.formats.json import SCHEMA, verification_object
from forwardlens.report.numbers import format_count, format_ms
from forwardlens.report.record import report_name
from forwardlens.report.words import verification_text

if TYPE_CHECKING:  # the workflow brings the rules with it, which words do not need
    from forwardlens.workflow import FixReport

# A line that changed by less than this share of the first forward says nothing.
_LEAST_CHANGE = 0.01
_MOST_LINES, _MOST_OPERATORS = 10, 8
_DECIMALS = 6


def summary(report: FixReport, *, written: bool) -> Iterator[str]:
    """The report in lines of text."""
    for verdict, fixes in (("", report.applied), ("left out: ", report.rejected)):
        for finding, fix in fixes:
            yield f"{_place(report, finding)}: {verdict}{fix.title} ({verification_text(fix.verified)})"
    if not report.applied:
        yield "no fix to apply"
        return
    before, after = (format_ms(side.profile.forward.wall_ms.median) for side in (report.before, report.after))
    what = f"{format_count(len(report.applied), 'fix', 'fixes')} {'written' if written else 'proven, not written'}"
    together = f"; all together {verification_text(report.verified)}" if report.verified is not None else ""
    yield f"{what}; a forward took {before} before and {after} after{together}"
    comparison = compare(report.before.profile, report.after.profile)
    least = _LEAST_CHANGE * report.before.profile.forward.wall_ms.median
    changes = [change for change in comparison.lines if abs(change.change_ms) >= least][:_MOST_LINES]
    if changes:
        yield f"{'before':>10} {'after':>10}  line"
    for change in changes:
        yield f"{_ms(change.before_ms):>10} {_ms(change.after_ms):>10}  {_line(report, change)}"
    gone = [f"{name} ({format_count(calls, 'call')})" for name, calls in vanished(comparison)[:_MOST_OPERATORS]]
    if gone:
        yield f"gone: {', '.join(gone)}"


def vanished(comparison: Comparison) -> list[tuple[str, int]]:
    """The operators that ran before and do not any more, the costliest first, with their calls."""
    return [(op.name, op.calls_before) for op in comparison.operators if op.calls_before and not op.calls]


def render(report: FixReport) -> str:
    """The report as JSON."""
    return json.dumps(document(report), indent=2, allow_nan=False) + "\n"


def document(report: FixReport) -> dict[str, Any]:
    comparison = compare(report.before.profile, report.after.profile)
    return {
        "schema": SCHEMA,
        "entry": report.before.profile.entry,
        "target": report.before.profile.target,
        "before_ms": round(comparison.before.median, _DECIMALS),
        "after_ms": round(comparison.after.median, _DECIMALS),
        "verified": None if report.verified is None else verification_object(report.verified),
        "applied": [_fix(report, finding, fix) for finding, fix in report.applied],
        "rejected": [_fix(report, finding, fix) for finding, fix in report.rejected],
        "lines": [
            {
                "file": _name(report, change.file),
                "line_before": change.line_before,
                "line_after": change.line,
                "code": change.code,
                "before_ms": None if change.before_ms is None else round(change.before_ms, _DECIMALS),
                "after_ms": None if change.after_ms is None else round(change.after_ms, _DECIMALS),
            }
            for change in comparison.lines
        ],
        "vanished": [{"name": name, "calls": calls} for name, calls in vanished(comparison)],
        "diffs": {
            _name(report, path): unified_diff(report.before.sources[path], after, _name(report, path))
            for path, after in report.texts.items()
        },
    }


def _fix(report: FixReport, finding: Finding, fix: Fix) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "file": _name(report, finding.span.file),
        "line": finding.span.line,
        "title": fix.title,
        "verified": None if fix.verified is None else verification_object(fix.verified),
        "message": None if fix.verified is None else fix.verified.message,
    }


def _place(report: FixReport, finding: Finding) -> str:
    return f"{_name(report, finding.span.file)}:{finding.span.line}"


def _line(report: FixReport, change: LineChange) -> str:
    number = change.line if change.line is not None else change.line_before
    return f"{_name(report, change.file)}:{number}  {change.code}"


def _name(report: FixReport, file: str) -> str:
    return report_name(file, report.before.request.workspace)


def _ms(value: float | None) -> str:
    return "-" if value is None else format_ms(value)
