"""Two runs of one forward: what became of its lines and operators."""

from __future__ import annotations

from dataclasses import replace

from forwardlens.model import ExpressionCost, OpCost, Profile, Quantiles, Span
from forwardlens.report.compare import compare
from forwardlens.report.record import Report
from forwardlens.report.view import comparison_view

FILE = "/w/net.py"
BEFORE = """\
def forward(self, x):
    a = slow(x)
    y = x + 1
    b = old(y)
    return a, y
"""
AFTER = """\
def forward(self, x):
    a = fast(x)
    y = x + 1
    return a, y


def other(x):
    return new(x)
"""


def cost(line: int, self_ms: float, *ops: OpCost) -> ExpressionCost:
    return ExpressionCost(Span(FILE, line, 4, line, 9), "forward", 1, 1, self_ms, self_ms, 0.1, 0.0, 0.0, 0, ops)


def op(name: str, calls: int, self_ms: float) -> OpCost:
    return OpCost(name, calls, self_ms, self_ms, 0.0, 0, (), 1, outermost=True)


def profile(report: Report, text: str, median: float, *lines: ExpressionCost) -> Profile:
    wall = Quantiles(median, median * 0.95, median * 1.05, 30)
    forward = replace(report.profile.forward, wall_ms=wall)
    return replace(report.profile, forward=forward, lines=lines, texts={FILE: text}, timeline=None)


def test_lines_are_followed_through_the_edit(report: Report):
    before = profile(report, BEFORE, 10.0, cost(2, 5.0), cost(3, 1.0), cost(4, 3.0), cost(5, 1.0))
    after = profile(report, AFTER, 3.25, cost(2, 1.0), cost(3, 1.0), cost(4, 1.0), cost(8, 0.25))
    found = compare(before, after)
    # Edited in place, gone, new, and two that stayed, one of them moved.
    assert [(c.line_before, c.line, c.before_ms, c.after_ms, c.code) for c in found.lines] == [
        (2, 2, 5.0, 1.0, "a = fast(x)"),
        (4, None, 3.0, None, "b = old(y)"),
        (None, 8, None, 0.25, "return new(x)"),
        (3, 3, 1.0, 1.0, "y = x + 1"),
        (5, 4, 1.0, 1.0, "return a, y"),
    ]
    assert found.verdict == "faster"


def test_an_edited_line_that_does_not_run_any_more_is_gone(report: Report):
    before = profile(report, BEFORE, 10.0, cost(2, 5.0))
    after = profile(report, BEFORE.replace("a = slow(x)", "# nothing"), 5.0)
    (change,) = compare(before, after).lines
    assert (change.line_before, change.line, change.code) == (2, None, "a = slow(x)")


def test_operators_vanish_and_appear(report: Report):
    before = profile(report, BEFORE, 10.0, cost(2, 7.0, op("aten::item", 9, 6.0), op("aten::add", 1, 1.0)))
    after = profile(report, BEFORE, 3.0, cost(2, 3.0, op("aten::sum", 1, 2.0), op("aten::add", 2, 1.0)))
    assert [(c.name, c.calls_before, c.calls, c.change_ms) for c in compare(before, after).operators] == [
        ("aten::item", 9, 0, -6.0),
        ("aten::sum", 0, 1, 2.0),
        ("aten::add", 1, 2, 0.0),
    ]


def test_runs_that_overlap_are_not_called_different(report: Report):
    slow, other = profile(report, BEFORE, 10.0), profile(report, BEFORE, 10.4)
    assert compare(slow, other).verdict == compare(other, slow).verdict == "same"
    assert compare(slow, profile(report, BEFORE, 20.0)).verdict == "slower"


def test_the_view_has_it_in_plain_values(report: Report):
    before, after = profile(report, BEFORE, 10.0, cost(2, 7.0)), profile(report, BEFORE, 5.0, cost(2, 2.123456789))
    view = comparison_view(compare(before, after), report)
    assert view["before_ms"] == {"median": 10.0, "p10": 9.5, "p90": 10.5, "n": 30}
    (line,) = view["lines"]
    assert (line["code"], line["before_ms"], line["after_ms"]) == ("a = slow(x)", 7.0, 2.123457)
    assert view["verdict"] == "faster"
