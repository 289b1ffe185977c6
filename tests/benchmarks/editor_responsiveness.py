"""How long the user of a real VS Code waits for the first lens, and for our work while typing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.benchmarks.table import Table

ROOT = Path(__file__).resolve().parents[2]
RUNS = 5


def run() -> Table:
    measured = _measured()
    lens, reopened, worked = measured["firstLens"], measured["reopened"], measured["worked"]
    return Table(
        f"VS Code with a file of {measured['lines']:,} lines, {RUNS} fresh editors",
        "first lens at most 1.5 s after activation; no work per keystroke above 5 ms",
        f"{sorted(lens)[len(lens) // 2]} ms in the middle, {max(lens)} at worst in an editor at rest; "
        f"longest work {max(worked):.1f} ms",
        ("what", "measured"),
        [
            ("activation to first lens, ms, editor at rest, each editor", ", ".join(map(str, sorted(lens)))),
            (
                "the same in a window that is itself still starting",
                ", ".join(map(str, sorted(reopened))),
            ),
            (
                f"our {measured['stretches']} stretches of work in the extension host, {measured['keys']} keys",
                f"median {measured['median']:.2f} ms, p99 {measured['p99']:.2f} ms",
            ),
            ("the longest stretch of each editor, ms", _sorted(worked)),
            ("with the time that its process waited for a processor, ms", _sorted(measured["lasted"])),
        ],
    )


def _sorted(times: list[float]) -> str:
    return ", ".join(f"{ms:.1f}" for ms in sorted(times))


def _measured() -> dict[str, Any]:
    _python("editor.py", "install")
    _python("vsix.py")
    said = _python("node.py", "node", "tests/e2e/responsiveness.bench.ts", str(RUNS))
    return json.loads(said.splitlines()[-1])


def _python(script: str, *arguments: str) -> str:
    command = [sys.executable, str(ROOT / "scripts" / script), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
