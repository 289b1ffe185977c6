"""Spare workers: torch is imported before the command comes, and nothing of the workspace is run for it."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.entries.harness import NEVER, quiet

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.runner.pool import WorkerPool
from forwardlens.runner.request import RunRequest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform == "win32", reason="a shell script stands in for an interpreter"),
]

MODEL = """\
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1.0


def build():
    return Net(), (torch.zeros(4),)
"""


@pytest.fixture(autouse=True)
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
    fresh = WorkerPool()
    monkeypatch.setattr(workflow, "_pool", fresh)
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    yield fresh
    fresh.close()


def interpreter(folder: Path, log: Path) -> Path:
    """An interpreter in `folder` that writes a line to `log` whenever it is started."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho started >> '{log}'\nexec '{sys.executable}' \"$@\"\n", encoding="utf-8")
    python.chmod(0o755)
    return python


def starts(log: Path) -> int:
    return log.read_text(encoding="utf-8").count("started") if log.exists() else 0


def wait_for_start(log: Path, number: int) -> None:
    """The script writes its line some time after it was started."""
    while starts(log) < number:
        time.sleep(0.01)


def profile(workspace: Path, python: str | None) -> None:
    (workspace / "model.py").write_text(MODEL, encoding="utf-8")
    request = RunRequest("model.py:build", workspace, python=python, iterations=2, warmup=1)
    workflow.verify(workflow.profile(request, Settings(), quiet, NEVER), quiet, NEVER)


def test_a_run_takes_the_spare_and_another_one_is_started(tmp_path: Path) -> None:
    workspace, log = tmp_path / "workspace", tmp_path / "log"
    workspace.mkdir()
    python = str(interpreter(tmp_path / "environment", log))
    workflow.prepare(python, workspace)
    wait_for_start(log, 1)
    profile(workspace, python)
    wait_for_start(log, 2)
    assert starts(log) == 2


def test_an_interpreter_of_the_workspace_is_not_started_before_the_user_runs_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    interpreter(tmp_path / ".venv", log)
    workflow.prepare(None, tmp_path)
    profile(tmp_path, sys.executable)
    assert starts(log) == 0
    profile(tmp_path, None)
    wait_for_start(log, 2)
