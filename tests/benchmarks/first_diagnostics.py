"""How long the editor's user waits: from the command to the first findings, beyond the forwards that it ran."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.programs import COUNTED_SLOW_BERT, SAMPLES
from tests.benchmarks.server import served
from tests.benchmarks.table import Table

ATTEMPTS = 5
# The user reads for so long before the command, which is when the spare worker imports torch.
READING_S = 12.0
_PLAIN = """
import time, slow_bert
model, args = slow_bert.build()
model(*args)
start = time.perf_counter()
for _ in range({count}):
    model(*args)
print(time.perf_counter() - start)
"""


def run() -> Table:
    rows: list[tuple[str, str]] = []
    more: dict[bool, float] = {}
    for spare in (True, False):
        attempts = [_attempt(spare) for _ in range(ATTEMPTS)]
        waited, forwards, counts = (statistics.median(values) for values in zip(*attempts, strict=True))
        more[spare] = statistics.median(wait - plain for wait, plain, _ in attempts)
        what = "with a spare worker" if spare else "without"
        rows.append((f"command to first findings, {what}", f"{waited:.2f}"))
        rows.append((f"the {counts:.0f} forwards it ran, untraced, in a process of their own", f"{forwards:.2f}"))
    rows.append(("more than its forwards, without a spare worker", f"{more[False]:.2f}"))
    return Table(
        "From the command to the first findings",
        "with a spare worker at most 0.8 s more than the forwards it ran",
        f"{more[True]:+.2f} s",
        ("what", "seconds"),
        rows,
    )


def _attempt(spare: bool) -> tuple[float, float, int]:
    """Seconds from the command to diagnostics, seconds of the forwards run until then, and their number."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(SAMPLES / "slow_bert.py", folder)
        (folder / "counted.py").write_text(COUNTED_SLOW_BERT, encoding="utf-8")
        waited = _command(folder, spare)
        count = (folder / "count_then").stat().st_size
        done = subprocess.run(
            [sys.executable, "-c", _PLAIN.format(count=count)], cwd=folder, capture_output=True, text=True, check=True
        )
        return waited, float(done.stdout), count


def _command(folder: Path, spare: bool) -> float:
    with served(folder) as server:
        wire, uri = server.wire, server.open(folder / "slow_bert.py")
        if spare:
            wire.ask("textDocument/codeLens", {"textDocument": {"uri": uri}})
        time.sleep(READING_S)
        start = time.perf_counter()
        server.begin_profile(uri, "counted.py:build")
        wire.wait(lambda: any(diagnostics for _, diagnostics in wire.published))
        waited = time.perf_counter() - start
        shutil.copy(folder / "count", folder / "count_then")
        wire.ask("workspace/executeCommand", {"command": "forwardlens.cancel", "arguments": []})
    return waited
