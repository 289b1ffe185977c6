"""What the whole command costs beyond importing torch and running the forward as often as it did."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.programs import COUNTED_SLOW_BERT, SAMPLES
from tests.benchmarks.table import Table

ATTEMPTS = 5
_COMMAND = [sys.executable, "-m", "forwardlens", "profile", "counted.py:build", "--no-verify"]
_PLAIN = """
import torch, slow_bert
model, args = slow_bert.build()
for _ in range({count}):
    model(*args)
"""


def run() -> Table:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(SAMPLES / "slow_bert.py", folder)
        (folder / "counted.py").write_text(COUNTED_SLOW_BERT, encoding="utf-8")
        attempts = [_attempt(folder) for _ in range(ATTEMPTS)]
    ours, plain, counts = (statistics.median(values) for values in zip(*attempts, strict=True))
    more = statistics.median(command - alone for command, alone, _ in attempts)
    return Table(
        "The whole command against the forwards it ran",
        "at most 1.0 s more than `import torch` and the same number of forwards",
        f"{more:+.2f} s",
        ("what", "seconds"),
        [
            ("`forwardlens profile slow_bert.py:build --no-verify`", f"{ours:.2f}"),
            (f"`import torch` and {counts:.0f} forwards", f"{plain:.2f}"),
        ],
    )


def _attempt(folder: Path) -> tuple[float, float, int]:
    """Seconds of the command, seconds of its forwards with nobody looking, and their number."""
    (folder / "count").unlink(missing_ok=True)
    ours = _seconds(_COMMAND, folder)
    count = (folder / "count").stat().st_size
    return ours, _seconds([sys.executable, "-c", _PLAIN.format(count=count)], folder), count


def _seconds(command: list[str], folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, cwd=folder)
    return time.perf_counter() - start
