"""Put a real VS Code (code-server) into `.cache/code-server` for the editor tests.

    python scripts/editor.py install

It is some 600 MB, takes minutes, and is why it is no dependency of package.json. Building its native parts needs a C++
compiler and, on Debian, `libkrb5-dev`.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from node import ROOT, run

VERSION = "4.139.1"
FOLDER = ROOT / ".cache" / "code-server"


def installed(folder: Path) -> bool:
    """Whether `folder` holds the wanted version, complete: the inner marker is the last thing its install makes."""
    package = folder / "node_modules" / "code-server" / "package.json"
    modules = package.parent / "lib" / "vscode" / "node_modules"
    if not (package.is_file() and modules.is_dir()):
        return False
    return json.loads(package.read_text(encoding="utf-8"))["version"] == VERSION


def install(folder: Path) -> int:
    if installed(folder):
        return 0
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    return run("npm", ["install", "--no-audit", "--no-fund", f"code-server@{VERSION}"], cwd=folder, native=True)


def main(arguments: Sequence[str]) -> int:
    if list(arguments) != ["install"]:
        print("usage: python scripts/editor.py install", file=sys.stderr)
        return 2
    return install(FOLDER)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
