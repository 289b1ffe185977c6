"""A table with a row for every operator of every expression, for spreadsheets and data frames."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from forwardlens.model import ExpressionCost
from forwardlens.report.formats import Format
from forwardlens.report.record import Report

COLUMNS = (
    *("file", "line", "column", "end_line", "end_column", "function"),
    *("operator", "calls", "self_ms", "total_ms", "device_ms", "share", "alloc_bytes", "shapes"),
)
_DECIMALS = 6


def render(report: Report) -> str:
    """Times are milliseconds per forward. An expression's own row has no operator; its operators are parts of it."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    for cost in report.profile.lines:
        rows.writerows(_rows(cost, report))
    return out.getvalue()


def _rows(cost: ExpressionCost, report: Report) -> Iterator[tuple[object, ...]]:
    span = cost.span
    place = (report.name_of(span.file), span.line, span.column, span.end_line, span.end_column, cost.function)
    times = (round(value, _DECIMALS) for value in (cost.self_ms, cost.total_ms, cost.device_ms, cost.share))
    yield (*place, "", cost.calls, *times, cost.alloc_bytes, "")
    for op in cost.ops:
        times = (round(value, _DECIMALS) for value in (op.self_ms, op.total_ms, op.device_ms))
        yield (*place, op.name, op.calls, *times, "", "", " ".join("x".join(map(str, shape)) for shape in op.shapes))


FORMAT = Format("CSV table of operators", ".csv", render)
