"""The JSON report, `forwardlens/1`; forwardlens-1.schema.json describes it."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

from forwardlens.model import (
    Edit,
    ExpressionCost,
    Finding,
    Fix,
    Forward,
    Graphs,
    OpCost,
    RunError,
    Span,
    Verification,
)
from forwardlens.report.formats import Format
from forwardlens.report.links import rule_url
from forwardlens.report.record import Report, plain_evidence
from forwardlens.report.words import verification_text

SCHEMA = "forwardlens/1"
_DECIMALS = 6
"""Of a millisecond and of a share: a nanosecond and a millionth, below what any clock resolves."""

JsonObject = dict[str, Any]


def document(report: Report) -> JsonObject:
    """The report as plain JSON values."""
    profile = report.profile
    return {
        "schema": SCHEMA,
        "entry": profile.entry,
        "target": profile.target,
        "environment": asdict(profile.environment),
        "forward": _forward(profile.forward),
        "unattributed_share": _number(profile.unattributed_share),
        "lines": [_line(cost, report) for cost in profile.lines],
        "findings": [_finding(finding, report) for finding in report.findings],
        "errors": [_error(error, report) for error in report.errors],
        "graphs": None if profile.graphs is None else _graphs(profile.graphs, report),
    }


def render(report: Report) -> str:
    return json.dumps(document(report), indent=2, allow_nan=False) + "\n"


def _forward(forward: Forward) -> JsonObject:
    wall = forward.wall_ms
    return {
        "wall_ms": {
            "median": _number(wall.median),
            "p10": _number(wall.p10),
            "p90": _number(wall.p90),
            "n": wall.n,
        },
        "device_busy_ms": _number(forward.device_busy_ms),
        "blocked_ms": _number(forward.blocked_ms),
        "peak_memory_bytes": forward.peak_memory_bytes,
        "bound": forward.bound,
    }


def _line(cost: ExpressionCost, report: Report) -> JsonObject:
    return {
        **_place(cost.span, report),
        "function": cost.function,
        "calls": cost.calls,
        "self_ms": _number(cost.self_ms),
        "total_ms": _number(cost.total_ms),
        "share": _number(cost.share),
        "device_ms": _number(cost.device_ms),
        "blocked_ms": _number(cost.blocked_ms),
        "alloc_bytes": cost.alloc_bytes,
        "ops": [_op(op) for op in cost.ops],
    }


def _op(op: OpCost) -> JsonObject:
    return {
        "name": op.name,
        "calls": op.calls,
        "self_ms": _number(op.self_ms),
        "total_ms": _number(op.total_ms),
        "device_ms": _number(op.device_ms),
        "shapes": [list(shape) for shape in op.shapes],
        "dtypes": list(op.dtypes),
    }


def _finding(finding: Finding, report: Report) -> JsonObject:
    return {
        "rule": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        **_place(finding.span, report),
        "share": _number(finding.share),
        "evidence": plain_evidence(finding.evidence),
        "url": rule_url(finding.rule),
        "fixes": [
            *(_fix(fix, report) for fix in finding.fixes),
            *(_fix(_only_told(fix), report) for fix in report.rejected_for(finding)),
        ],
    }


def _only_told(rejected: Fix) -> Fix:
    """As something to read: whoever applies what is safe must not apply this."""
    return replace(rejected, applicability="display", reason=verification_text(rejected.verified))


def _fix(fix: Fix, report: Report) -> JsonObject:
    return {
        "title": fix.title,
        "applicability": fix.applicability,
        "reason": fix.reason,
        "edits": [_edit(edit, report) for edit in fix.edits],
        "verified": None if fix.verified is None else verification_object(fix.verified),
    }


def _edit(edit: Edit, report: Report) -> JsonObject:
    return {
        "file": report.name_of(edit.file),
        "start": list(edit.start),
        "end": list(edit.end),
        "text": edit.text,
    }


def verification_object(tried: Verification) -> JsonObject:
    """How a fix did when it was tried."""
    return {
        "outcome": tried.outcome,
        "max_abs_diff": _finite(tried.max_abs_diff),
        "before_ms": _number(tried.before_ms),
        "after_ms": _number(tried.after_ms),
        "speedup": _number(tried.speedup),
        "speedup_low": _number(tried.speedup_low),
        "speedup_high": _number(tried.speedup_high),
        "pairs": tried.pairs,
    }


def _graphs(graphs: Graphs, report: Report) -> JsonObject:
    return {
        "count": graphs.count,
        "asked": graphs.asked,
        "breaks": [
            {
                **_place(graph_break.span, report),
                "function": graph_break.function,
                "reason": graph_break.reason,
                "frame_skipped": graph_break.frame_skipped,
            }
            for graph_break in graphs.breaks
        ],
    }


def _error(error: RunError, report: Report) -> JsonObject:
    file = None if error.file is None else report.name_of(error.file)
    return {"kind": error.kind, "message": error.message, "file": file, "line": error.line}


def _place(span: Span, report: Report) -> JsonObject:
    return {
        "file": report.name_of(span.file),
        "line": span.line,
        "column": span.column,
        "end_line": span.end_line,
        "end_column": span.end_column,
    }


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, _DECIMALS)


def _finite(value: float | None) -> float | None:
    """Not rounded: a difference of 1e-7 is the information. JSON has no word for infinity or NaN."""
    return value if value is not None and math.isfinite(value) else None


FORMAT = Format(f"JSON, schema {SCHEMA}", ".json", render)
