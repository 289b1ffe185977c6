"""A workspace in which whatever could run by being opened leaves a mark."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.entries.harness import write

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x * 2.0


def build():
    return Net(), (torch.ones(2, 8),)
"""
MEAN = """\
[tool.forwardlens]
entry = "evil"
[tool.forwardlens.entries.evil]
run = "evil.py"
python = "./evil.sh"
"""
EVIL = "import pathlib\npathlib.Path(__file__).with_name('it-ran').touch()\n"


def mean_workspace(folder: Path) -> None:
    """Code, interpreters, test and start-up files that run if anything does; links in circles; a file of 2 GB."""
    shell = f"#!/bin/sh\ntouch '{folder / 'it-ran'}'\n"
    files = {
        "pyproject.toml": MEAN,
        "evil.py": EVIL + MODEL,
        "conftest.py": EVIL,
        "sitecustomize.py": EVIL,
        "torch.py": EVIL,
        "evil.sh": shell,
        ".venv/bin/python": shell,
        ".venv/pyvenv.cfg": "",
        "deep/model.py": MODEL,
        "new\nline.py" if sys.platform != "win32" else "line.py": MODEL,
    }
    write(folder, files)
    for name in ("evil.sh", ".venv/bin/python"):
        (folder / name).chmod(0o755)
    (folder / "broken.py").write_bytes(b"x = '\xe9'\n")
    sparse(folder / "huge.py")
    if sys.platform != "win32":
        (folder / "deep" / "loop").symlink_to(folder, target_is_directory=True)
        (folder / "self.py").symlink_to("self.py")
        (folder / "gone.py").symlink_to("nowhere.py")


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 << 30)


def has_run(folder: Path) -> bool:
    return (folder / "it-ran").exists()
