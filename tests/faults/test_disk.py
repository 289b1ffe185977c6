"""A disk that is full and a folder that is read-only: said in one sentence, nothing lost, nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types
from tests.entries.harness import NEVER, quiet
from tests.faults.disk import full_disk, held_by_modes, read_only
from tests.faults.programs import GOOD, SETTINGS
from tests.faults.test_faults import only_when_asked
from tests.lsp.editor import REAL, Editor, launch, modern_capabilities, within

from forwardlens.runner.request import RunFailedError, RunRequest
from forwardlens.runner.runner import record, start_worker

pytestmark = pytest.mark.torch


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A fresh folder with a program and its settings."""
    folder = tmp_path / "work space"
    folder.mkdir()
    (folder / "model.py").write_text(GOOD.text, encoding="utf-8")
    (folder / "pyproject.toml").write_text(SETTINGS.format(memory_limit=8), encoding="utf-8")
    return folder


def test_a_read_only_workspace_is_profiled_by_the_command(workspace: Path) -> None:
    with read_only(workspace):
        done = command(workspace, "profile", "--no-verify")
        refused = command(workspace, "profile", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    assert f":{GOOD.line('costs')}:" in done.stdout
    assert refused.returncode == 2
    assert "cannot write 'out.json': it may not be written to; name a file elsewhere" in refused.stderr
    assert untouched(workspace)


@only_when_asked
def test_a_read_only_file_is_not_fixed_and_that_is_one_sentence(workspace: Path) -> None:
    with read_only(workspace):
        fixed = command(workspace, "fix", "--write")
    assert (fixed.returncode, fixed.stdout) == (2, "")
    (line,) = fixed.stderr.splitlines()
    assert line == f"Error: cannot write '{workspace / 'model.py'}': Permission denied; nothing was written"
    assert untouched(workspace)


@pytest.mark.asyncio
async def test_a_read_only_workspace_is_profiled_by_the_server(workspace: Path) -> None:
    with read_only(workspace):
        client, recorder, result = await launch(held_by_modes(REAL), modern_capabilities(), None, [workspace])
        recorder.editor = editor = Editor(client, workspace, result)
        uri = editor.open(GOOD.text, save=False)
        summary = await editor.profile(uri, entry=None)
        assert await editor.hints(uri)
        await within(client.shutdown_session())
        await client.stop()
    assert (summary["status"], summary["verified"]) == ("done", True), summary
    assert types.MessageType.Error not in [message.type for message in client.log_messages]
    assert untouched(workspace)


def test_a_trace_that_does_not_fit_on_the_disk_is_told_and_leaves_nothing(workspace: Path) -> None:
    trace = workspace / "trace.json"
    request = RunRequest("model.py:build", workspace, iterations=1, warmup=1, save_trace=str(trace))
    with (
        full_disk(1000),
        start_worker(request, quiet, NEVER) as worker,
        pytest.raises(RunFailedError, match=r"cannot write the trace to .*trace\.json: .*; name a file elsewhere"),
    ):
        record(worker, request, quiet, NEVER)
    assert untouched(workspace)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        held_by_modes([sys.executable, "-m", "forwardlens", *arguments]),
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


def untouched(folder: Path) -> bool:
    """Whether it holds what was put there and nothing else."""
    names = sorted(path.name for path in folder.rglob("*"))
    return names == ["model.py", "pyproject.toml"] and (folder / "model.py").read_text(encoding="utf-8") == GOOD.text
