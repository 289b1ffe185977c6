"""What a terminal gets on top: colour and progress, both only there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal"),
]

NET = """\
import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval(), (torch.ones(2, 8),)
"""
COLOUR = re.compile(r"\x1b\[[0-9;]*3[0-9][0-9;]*m")


def on_terminal(folder: Path, **env: str) -> str:
    """Everything a terminal of 60 columns is sent while the command runs in it."""
    import pty

    (folder / "net.py").write_text(NET)
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "forwardlens", "profile", "net.py:build"],
        cwd=folder,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "60", "OMP_NUM_THREADS": "1", **env},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ):
        os.close(theirs)
        sent = b"".join(_chunks(ours))
    os.close(ours)
    return sent.decode()


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 8192)
        except OSError:  # Linux: the other end is closed
            return
        if not chunk:
            return
        yield chunk


def test_progress_is_shown_and_cleared_away(tmp_path: Path):
    sent = on_terminal(tmp_path)

    assert "Starting" in sent
    assert "\x1b[2K" in sent
    assert "net.py:build" in sent


def test_no_color_is_respected(tmp_path: Path):
    assert COLOUR.search(on_terminal(tmp_path))
    assert not COLOUR.search(on_terminal(tmp_path, NO_COLOR="1"))
