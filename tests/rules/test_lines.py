"""Profiles that know lines only lead to the same findings as those that know columns."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
from tests.rules import harness

from forwardlens.model import ExpressionCost, Profile
from forwardlens.rules.contract import Example, Rule
from forwardlens.rules.engine import catalogue
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

# One statement a line, and no two expressions of a kind on one: what a line can tell apart.
NAMES = {
    "append-and-stack",
    "recurrence-around-it",
    "column-by-column",
    "split-heads",
    "elementwise-chain",
    "carried-state",
    "decoding",
}
EXAMPLES = [pytest.param(r, e, id=f"{r.name}/{e.name}") for r in catalogue() for e in r.examples if e.name in NAMES]


def by_line(profile: Profile, source: SourceText) -> Profile:
    """The profile as an interpreter without columns gives it."""
    lines: dict[tuple[int, str], list[ExpressionCost]] = defaultdict(list)
    for cost in profile.lines:
        lines[cost.span.line, cost.function].append(cost)
    return replace(
        profile,
        lines=tuple(
            replace(
                max(costs, key=lambda cost: cost.calls),
                span=source.line_span(line),
                self_ms=sum(cost.self_ms for cost in costs),
                total_ms=sum(cost.total_ms for cost in costs),
                share=sum(cost.share for cost in costs),
                ops=tuple(op for cost in costs for op in cost.ops),
            )
            for (line, _), costs in lines.items()
        ),
    )


@pytest.mark.parametrize(("rule", "example"), EXAMPLES)
def test_example_by_line(rule: Rule, example: Example, tmp_path: Path) -> None:
    code, marked = harness.unmarked(example.code)
    source = SourceText(str(tmp_path / "example.py"), code)
    findings = harness.find(rule, by_line(harness.measurer(tmp_path)(source), source), source)
    assert {finding.span.end_line for finding in findings} == marked
    assert apply_edits(source, harness.safe_edits(findings)).text == (example.fixed or code)
