"""What the whole command costs beyond importing torch and running the forward as often as it did."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

from tests.benchmarks.programs import SAMPLES
from tests.benchmarks.table import Table

ATTEMPTS = 5
# Forwards of a run: warm-up up to 21, timed and clocked 60 each, profiled 4, and two for gradients and memory.
FORWARDS = 21 + 2 * 60 + 4 + 2
_PLAIN = f"""
import sys; sys.path.insert(0, {str(SAMPLES)!r})
import torch, slow_bert
model, args = slow_bert.build()
for _ in range({FORWARDS}):
    model(*args)
"""


def run() -> Table:
    command = [sys.executable, "-m", "forwardlens", "profile", "slow_bert.py:build", "--no-verify"]
    pairs = [(_seconds(command), _seconds([sys.executable, "-c", _PLAIN])) for _ in range(ATTEMPTS)]
    ours, plain = (statistics.median(times) for times in zip(*pairs, strict=True))
    more = statistics.median(a - b for a, b in pairs)
    return Table(
        "The whole command against the forwards it ran",
        "at most 1.0 s more than `import torch` and the same number of forwards",
        f"{more:+.2f} s",
        ("what", "seconds"),
        [
            ("`forwardlens profile slow_bert.py:build --no-verify`", f"{ours:.2f}"),
            (f"`import torch` and {FORWARDS} forwards", f"{plain:.2f}"),
        ],
    )


def _seconds(command: list[str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, cwd=SAMPLES)
    return time.perf_counter() - start
