"""Every operator's cost is on the exact expression that ran it."""

from __future__ import annotations

import re
import threading
from collections import Counter
from pathlib import Path

import pytest

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


@pytest.fixture(scope="module")
def profile() -> Profile:
    request = RunRequest("marked_expressions.py:build", HERE, iterations=3, warmup=1)
    cancelled = threading.Event()
    with start_worker(request, lambda _: None, cancelled) as worker:
        return attribute(record(worker, request, lambda _: None, cancelled), request.entry)


def test_operators_sit_on_the_expressions_marked_by_hand(profile: Profile) -> None:
    source = SourceText.read(MARKED)
    expected = marks(source)
    assert len(expected) >= 120
    got = measured(profile, source, {op for op, _, _ in expected})
    assert (sorted(got - expected), sorted(expected - got)) == ([], [])


def test_marks_cover_many_kinds_of_operators() -> None:
    ops = Counter(op for op, _, _ in marks(SourceText.read(MARKED)))
    assert len(ops) >= 80
