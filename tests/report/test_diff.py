"""Diffs that `git apply` accepts."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from forwardlens.model import Edit, Fix
from forwardlens.report.diff import fix_diff, unified_diff
from forwardlens.source.text import SourceText


def text_of(folder: Path, text: str) -> SourceText:
    path = folder / "model.py"
    path.write_bytes(text.encode())
    return SourceText(str(path), text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1\nb = 2\n", "a = 1\nb = 3\n"),
        ("a = 1\r\nb = 2\r\n", "a = 1\r\nb = 3\r\n"),
        ("a = 1\nb = 2", "a = 1\nb = 3"),
        ("a = 1\nb = 2", "a = 1\nb = 2\n"),
        ("a = 1\n\x0cb = 2\n", "a = 1\n\x0cb = 3\n"),
        ("a = '\u2028'\nb = 2\n", "a = '\u2028'\nb = 3\n"),
    ],
)
def test_git_applies_it_and_gets_the_text(tmp_path: Path, before: str, after: str):
    source = text_of(tmp_path, before)
    patch = unified_diff(source, source.with_text(after), "model.py")

    subprocess.run(["git", "apply", "-"], input=patch.encode(), cwd=tmp_path, check=True)

    assert (tmp_path / "model.py").read_bytes() == after.encode()


def test_no_change_is_no_diff(tmp_path: Path):
    source = text_of(tmp_path, "a = 1\n")

    assert unified_diff(source, source, "model.py") == ""


def test_a_fix_of_two_files_is_one_diff(tmp_path: Path):
    a, b = SourceText("/a.py", "x = 1\n"), SourceText("/b.py", "y = 1\n")
    fix = Fix("both", "safe", (Edit("/a.py", (1, 4), (1, 5), "2"), Edit("/b.py", (1, 4), (1, 5), "3")))

    diff = fix_diff(fix, {"/a.py": a, "/b.py": b}, {"/a.py": "a.py"})

    assert diff.splitlines() == [
        *("--- a/a.py", "+++ b/a.py", "@@ -1 +1 @@", "-x = 1", "+x = 2"),
        *("--- a//b.py", "+++ b//b.py", "@@ -1 +1 @@", "-y = 1", "+y = 3"),
    ]
