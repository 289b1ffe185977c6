"""Workspaces that are odd, broken or mean: what can be profiled is, the rest is told, and nothing runs unasked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.entries.harness import Bench, calls
from tests.entries.mean import MODEL, has_run, mean_workspace, sparse

from forwardlens.runner.request import RunFailedError, RunRequest

pytestmark = pytest.mark.torch

# Windows forbids some characters, and macOS decomposes others.
_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="not a name that Windows allows")


@pytest.mark.parametrize(
    "name",
    [
        "with space.py",
        "it's.py",
        pytest.param('say "hello".py', marks=_POSIX),
        "rocket 🚀.py",
        "größe/模型.py",
        pytest.param("new\nline.py", marks=_POSIX),
        "two:colons.py" if sys.platform != "win32" else "two colons.py",
        "a.b/c-d.py",
    ],
)
def test_file_of_any_name_is_profiled(tmp_path: Path, bench: Bench, name: str) -> None:
    script = MODEL + "\n\nNet()(torch.ones(2, 8))\n"
    for entry in (f"{name}:build", name):
        assert "x * 2.0" in calls(bench.profile(tmp_path, {name: script}, entry))


def test_file_in_another_encoding_is_profiled(tmp_path: Path, bench: Bench) -> None:
    text = "# -*- coding: latin-1 -*-\n" + MODEL.replace("x * 2.0", "x * len('é')")
    (tmp_path / "latin.py").write_bytes(text.encode("latin-1"))
    profile = bench.run(RunRequest("latin.py:build", tmp_path, iterations=1, warmup=1))
    assert "x * len('é')" in calls(profile)


@pytest.mark.parametrize(
    ("content", "message", "line"),
    [
        (b"import torch\nname = '\xe9'\n", "broken.py:2: SyntaxError: (unicode error)", 2),
        (b"# -*- coding: no-such -*-\n", "broken.py:1: SyntaxError: unknown encoding: no-such", 1),
        (b"x = 1\0\n", "source code", None),
        (b"\xff\xfe" + MODEL.encode("utf-16-le"), "SyntaxError", 1),
        (b"def build(:\n", "broken.py:1: SyntaxError: invalid syntax", 1),
    ],
    ids=["no UTF-8", "unknown encoding", "null", "UTF-16", "syntax"],
)
@pytest.mark.parametrize("entry", ["broken.py:build", "broken.py"])
def test_file_that_is_no_python_is_named_with_its_line(
    tmp_path: Path, bench: Bench, entry: str, content: bytes, message: str, line: int | None
) -> None:
    (tmp_path / "broken.py").write_bytes(content)
    with pytest.raises(RunFailedError) as caught:
        bench.run(RunRequest(entry, tmp_path))
    assert message in caught.value.message
    assert line is None or caught.value.line == line
    assert "forwardlens" not in caught.value.trace


def test_huge_file_is_refused_without_reading_it(tmp_path: Path, bench: Bench) -> None:
    sparse(tmp_path / "huge.py")
    for entry in ("huge.py", "huge.py:build"):
        with pytest.raises(RunFailedError, match="has more than 64 MiB, so it is no Python source"):
            bench.run(RunRequest(entry, tmp_path))


def test_function_of_ten_thousand_lines_is_profiled(tmp_path: Path, bench: Bench) -> None:
    text = MODEL.replace("        return x * 2.0", "        x = x + 1.0\n" * 10_000 + "        return x * 2.0")
    profile = bench.profile(tmp_path, {"long.py": text}, "long.py:build")
    assert calls(profile)["x * 2.0"] == 1
    assert len(profile.lines) > 10_000


def test_doctor_reads_a_mean_workspace_without_running_its_code(tmp_path: Path) -> None:
    mean_workspace(tmp_path)
    done = subprocess.run(
        [sys.executable, "-P", "-m", "forwardlens", "doctor", "--python", sys.executable],
        cwd=tmp_path,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.stderr == ""
    assert not has_run(tmp_path)
    assert "huge.py, because it has more than 512 KiB" in done.stdout
    assert "broken.py, because it cannot be read" in done.stdout
    assert "candidate" in done.stdout
    assert all(line[:1].isalpha() for line in done.stdout.splitlines())
