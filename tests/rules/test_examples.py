"""Every example of every rule, profiled for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.interpreters import OTHERS
from tests.rules import harness

from forwardlens.rules.contract import Example, Rule
from forwardlens.rules.engine import catalogue
from forwardlens.source.edits import apply_edits
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

EXAMPLES = [
    pytest.param(r, e, python, id=f"{r.name}/{e.name}" + (f", {python}" if python else ""))
    for python in (None, *OTHERS)
    for r in catalogue()
    for e in r.examples
]
FIXED = [pytest.param(r, e, id=f"{r.name}/{e.name}") for r in catalogue() for e in r.examples if e.fixed is not None]


@pytest.mark.parametrize(("rule", "example", "python"), EXAMPLES)
def test_example(rule: Rule, example: Example, python: str | None, tmp_path: Path) -> None:
    if example.device != "cpu":
        _need(example.device)
    assert harness.check(rule, example, tmp_path, harness.measurer(tmp_path, example.device, python)) == []


def _need(device: str) -> None:
    """Skip where torch has no such device."""
    import torch

    if not getattr(torch, device).is_available():
        pytest.skip(f"this machine has no {device} device")


@pytest.mark.parametrize(("rule", "example"), FIXED)
def test_example_in_other_clothes(rule: Rule, example: Example, tmp_path: Path) -> None:
    assert example.fixed is not None
    source = SourceText(str(tmp_path / "example.py"), harness.dressed(harness.unmarked(example.code)[0]))
    findings = harness.find(rule, harness.measurer(tmp_path)(source), source)
    assert apply_edits(source, harness.safe_edits(findings)).text == harness.dressed(example.fixed)
