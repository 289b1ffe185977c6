"""The table of operators for spreadsheets."""

from __future__ import annotations

import csv

from forwardlens.report.formats.csv import COLUMNS, render
from forwardlens.report.record import Report


def test_an_expression_has_a_row_and_so_has_each_of_its_operators(report: Report):
    rows = list(csv.DictReader(render(report).splitlines()))
    assert tuple(rows[0]) == COLUMNS
    own, op = rows[:2]
    assert (own["file"], own["line"], own["operator"], own["self_ms"], own["share"]) == (
        "models/tagger one.py", "18", "", "6.0", "0.75",
    )  # fmt: skip
    assert (op["operator"], op["calls"], op["self_ms"], op["shapes"]) == ("aten::embedding", "128", "6.0", "10x4 1")
    assert len(rows) == 2 * len(report.profile.lines)


def test_the_rows_of_expressions_add_up_to_what_the_lines_take(report: Report):
    rows = csv.DictReader(render(report).splitlines())
    total = sum(float(row["self_ms"]) for row in rows if not row["operator"])
    assert round(total, 6) == round(sum(cost.self_ms for cost in report.profile.lines), 6)
