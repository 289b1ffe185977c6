"""What the tests in a real VS Code need of the machine."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def what_is_missing() -> str | None:
    """Why the specs cannot run on this machine, with what to do about it."""
    if os.name == "nt":
        return "these tests end the editor's processes in a way that Windows does not have"
    if not any(map(shutil.which, BROWSERS)):
        return f"none of {', '.join(BROWSERS)} is on PATH"
    if not (ROOT / ".cache" / "code-server" / "node_modules" / "code-server").is_dir():
        return "no editor is installed: python scripts/editor.py install"
    if not (ROOT / "node_modules" / "playwright-core").is_dir():
        return "the Node packages are not installed: python scripts/node.py npm ci"
    return None
