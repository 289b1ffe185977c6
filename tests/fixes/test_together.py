"""Fixes that are right alone are tried together before they are applied together."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from tests.entries.harness import NEVER

from forwardlens.fixes.trial import Stack, apply_fix, try_together
from forwardlens.model import Edit, Finding, Fix, Span
from forwardlens.runner.process import Worker
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import start_worker
from forwardlens.source.text import SourceText

pytestmark = pytest.mark.torch

PROGRAM = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * (1 + 1) + x * (2 + 2)


def build():
    return Net(), (torch.rand(3, 4),)
"""


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Worker, RunRequest, SourceText]]:
    folder = tmp_path_factory.mktemp("together")
    path = folder / "net.py"
    path.write_text(PROGRAM, encoding="utf-8")
    request = RunRequest("net.py:build", folder, device="cpu")
    with start_worker(request, lambda _: None, NEVER) as started:
        yield started, request, SourceText(str(path), PROGRAM)


def named(source: SourceText, old: str, name: str, value: str) -> tuple[Finding, Fix]:
    """A fix that puts `name = value` before the return and reads it in place of `old`, and imports math."""
    start = source.text.index(old)
    span = Span(source.path, *source.position(start), *source.position(start + len(old)))
    at = source.position(source.text.index("return"))
    edits = (
        Edit(source.path, (2, 0), (2, 0), "import math\n"),
        Edit(source.path, at, at, f"{name} = {value}\n        "),
        Edit(source.path, span.start, span.end, name),
    )
    fix = Fix(f"Name {old}", "safe", edits)
    return Finding("invariant-in-loop", "info", "m", span, 0.5, {}, (), (fix,)), fix


def test_fixes_that_fit_are_kept_and_measured_at_once(worker: tuple[Worker, RunRequest, SourceText]) -> None:
    process, request, source = worker
    fixes = [named(source, "(1 + 1)", "two", "2"), named(source, "(2 + 2)", "four", "4")]
    together = try_together(process, request, {source.path: source}, fixes, NEVER)
    assert together.fixes == tuple(fixes)
    assert together.verified is not None
    assert together.verified.outcome in ("equal", "no-gain")


def test_of_two_fixes_with_the_same_new_name_the_first_is_kept(worker: tuple[Worker, RunRequest, SourceText]) -> None:
    process, request, source = worker
    fixes = [named(source, "(1 + 1)", "k", "2"), named(source, "(2 + 2)", "k", "4")]
    together = try_together(process, request, {source.path: source}, fixes, NEVER)
    assert together.fixes == tuple(fixes[:1])


def test_of_two_fixes_of_the_same_text_the_first_is_kept(worker: tuple[Worker, RunRequest, SourceText]) -> None:
    process, request, source = worker
    fixes = [named(source, "x * (1 + 1)", "k", "x * 2"), named(source, "(1 + 1)", "two", "2")]
    together = try_together(process, request, {source.path: source}, fixes, NEVER)
    assert together.fixes == tuple(fixes[:1])


def test_a_fix_is_tried_on_top_of_those_that_held(worker: tuple[Worker, RunRequest, SourceText]) -> None:
    process, request, source = worker
    stack = Stack(process, request, {source.path: source}, NEVER)
    outcomes = [stack.push(*named(source, *fix)) for fix in (("(1 + 1)", "k", "2"), ("(2 + 2)", "k", "4"))]
    assert [fix.verified.outcome if fix and fix.verified else None for fix in outcomes][1] == "differs"
    assert "k = 2" in stack.texts[source.path].text
    assert "k = 4" not in stack.texts[source.path].text


def test_an_import_that_two_fixes_need_is_added_once() -> None:
    source = SourceText(str(Path("net.py")), PROGRAM)
    (_, one), (_, other) = named(source, "(1 + 1)", "two", "2"), named(source, "(2 + 2)", "four", "4")
    text = apply_fix({source.path: source}, Fix("both", "safe", (*one.edits, *other.edits)))[source.path].text
    assert text.count("import math\n") == 1
