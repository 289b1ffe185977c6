"""Every sample holds what its header says: nothing more and nothing less."""

from __future__ import annotations

import ast
import importlib.util
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from forwardlens import workflow
from forwardlens.config import Settings, load_settings, resolve_entry
from forwardlens.model import Finding
from forwardlens.rules.engine import rule_names
from forwardlens.runner.request import Progress, RunRequest
from forwardlens.source.entries import likely_entries
from forwardlens.source.text import SourceText
from forwardlens.workflow import Result

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
HEADING = "Expected findings:"
Expectation = tuple[str, str]
"""A rule, and the expression or the line it points at."""

sample = pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.py")), ids=lambda path: path.stem)


def expected_findings(source: SourceText) -> list[Expectation]:
    """The last section of the header: `none`, or one indented line per finding."""
    assert source.tree is not None
    header = ast.get_docstring(source.tree) or ""
    assert HEADING in header, f"{source.path} does not say what must be found in it"
    rest = header.partition(HEADING)[2].strip()
    return [] if rest == "none" else [_expectation(line) for line in rest.splitlines()]


def _expectation(line: str) -> Expectation:
    rule, text = line.split(maxsplit=1)
    return rule, text


def points_at(finding: Finding, source: SourceText, expectation: Expectation) -> bool:
    rule, text = expectation
    return finding.rule == rule and text in (source.slice(finding.span), source.line(finding.span.line).strip())


def request_for(entry: str) -> RunRequest:
    return RunRequest(entry=entry, workspace=SAMPLES, device="cpu")


def quiet_profile(request: RunRequest, attempts: int = 4) -> Result:
    """A profile that does not itself say that the machine was too busy to measure, if there is one to be had."""
    result = workflow.profile(request, Settings(), silent, threading.Event())
    if attempts > 1 and any(error.kind == "calibration" for error in result.errors):
        return quiet_profile(request, attempts - 1)
    return result


def silent(step: Progress) -> None:
    pass


@sample
def test_the_header_speaks_about_the_file(path: Path):
    source = SourceText.read(path)
    code = source.text.split('"""', 2)[2]
    lines = [line.strip() for line in code.splitlines()]

    for rule, text in expected_findings(source):
        assert rule in rule_names()
        assert code.count(text) == 1 or lines.count(text) == 1, f"{text!r} is not one place in {path.name}"


@sample
def test_the_entry_is_recognised_and_configured(path: Path):
    settings = load_settings(SAMPLES, rule_names())

    assert [entry.name for entry in likely_entries(SourceText.read(path))] == ["build"]
    assert f"{path.name}:build" in {entry.run for entry in settings.entries.values()}


def test_the_default_entry_is_the_bert():
    assert resolve_entry(load_settings(SAMPLES, rule_names()), None, SAMPLES).run == "slow_bert.py:build"


@pytest.mark.torch
@sample
def test_a_real_run_finds_what_the_header_says(path: Path):
    result = quiet_profile(request_for(f"{path.name}:build"))
    source = SourceText.read(path)
    expected = expected_findings(source)

    unexpected = [
        (finding.rule, source.line(finding.span.line).strip())
        for finding in result.findings
        if not any(points_at(finding, source, each) for each in expected)
    ]
    counts = [sum(points_at(finding, source, each) for finding in result.findings) for each in expected]

    assert [error for error in result.errors if error.kind == "rule"] == []
    assert unexpected == []
    assert dict(zip(expected, counts, strict=True)) == dict.fromkeys(expected, 1)


@pytest.mark.torch
def test_fixing_the_slow_bert_removes_every_fault():
    request = request_for("slow_bert.py:build")

    report = workflow.fix_all(request, Settings(), silent, threading.Event())

    assert {finding.rule for finding, _ in report.applied} >= {
        "embedding-in-loop",
        "masking-in-loop",
        "grad-mode-in-inference",
        "contiguous-churn",
        "host-tensor-in-forward",
    }
    assert report.after.findings == ()
    medians = [side.profile.forward.wall_ms.median for side in (report.before, report.after)]
    assert medians[0] / medians[1] > 2


@pytest.mark.torch
@pytest.mark.parametrize("size", [{}, {"layers": 3, "dim": 24, "heads": 3, "length": 10, "batch": 4}])
def test_the_fixed_bert_computes_the_same_with_the_same_parameters(size: dict[str, int]):
    torch: Any = importlib.import_module("torch")
    slow, inputs = _load("slow_bert").build(**size)
    fixed, same_inputs = _load("slow_bert_fixed").build(**size)

    fixed.load_state_dict(slow.state_dict())

    assert all(torch.equal(one, other) for one, other in zip(inputs, same_inputs, strict=True))
    assert torch.allclose(slow(*inputs), fixed(*inputs), atol=1e-5)


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
