"""Every operator's cost is on the exact expression that ran it."""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.interpreters import OTHERS

from forwardlens.attribution.attribute import attribute
from forwardlens.model import Profile
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import record, start_worker
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

HERE = Path(__file__).parent
MARKED = HERE / "marked_expressions.py"
Mark = tuple[str, int, str]


def marks(source: SourceText) -> set[Mark]:
    """`(operator, line, text of the expression)` of every hand-made mark."""
    found: set[Mark] = set()
    for number in range(1, source.line_count + 1):
        _, mark, text = source.line(number).rpartition("  #: ")
        for item in text.split(" ; ") if mark else []:
            op, _, expression = item.partition(" ")
            found.add((op, number, expression.strip()))
    return found


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"  #: .*", "", text))


def measured(profile: Profile, source: SourceText, ops: set[str]) -> set[Mark]:
    return {
        (op.name.removeprefix("aten::"), cost.span.line, _plain(source.slice(cost.span)))
        for cost in profile.in_file(source.path)
        for op in cost.ops
        if op.outermost and op.name.removeprefix("aten::") in ops
    }


@pytest.fixture(scope="module", params=[sys.executable, *OTHERS])
def profile(request: pytest.FixtureRequest) -> Profile:
    run = RunRequest("marked_expressions.py:build", HERE, python=request.param, iterations=3, warmup=1)
    cancelled = threading.Event()
    with start_worker(run, lambda _: None, cancelled) as worker:
        return attribute(record(worker, run, lambda _: None, cancelled), run.entry)


def test_operators_sit_on_the_expressions_marked_by_hand(profile: Profile) -> None:
    source = SourceText.read(MARKED)
    expected = marks(source)
    assert len(expected) >= 120
    ops = {op for op, _, _ in expected}
    if profile.environment.python.startswith("3.10."):
        _check_statements(profile, source, expected)
    else:
        got = measured(profile, source, ops)
        assert (sorted(got - expected), sorted(expected - got)) == ([], [])


def _check_statements(profile: Profile, source: SourceText, expected: set[Mark]) -> None:
    """Lines only: each operator is on the statement that holds the marked expression."""
    statements = [statement for statement in ast.walk(ast.parse(source.text)) if isinstance(statement, ast.stmt)]
    lines = {
        (op.name.removeprefix("aten::"), cost.span.line) for cost in profile.in_file(source.path) for op in cost.ops
    }

    def around(line: int) -> range:
        inner = min((s for s in statements if s.lineno <= line <= (s.end_lineno or 0)), key=_length)
        return range(inner.lineno, (inner.end_lineno or 0) + 1)

    assert [mark for mark in sorted(expected) if not any((mark[0], at) in lines for at in around(mark[1]))] == []


def _length(statement: ast.stmt) -> int:
    return (statement.end_lineno or 0) - statement.lineno


def test_marks_cover_many_kinds_of_operators() -> None:
    ops = Counter(op for op, _, _ in marks(SourceText.read(MARKED)))
    assert len(ops) >= 80
