"""How much memory the server holds after many runs in one session of an editor."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests.benchmarks.programs import SAMPLES
from tests.benchmarks.server import served
from tests.benchmarks.table import Table

RUNS, STEP = 50, 10
BAR_MB = 150
_QUICK = '[tool.forwardlens.entries.quick]\nrun = "slow_bert.py:build"\niterations = 2\nwarmup = 1\n'


def run() -> Table:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shutil.copy(SAMPLES / "slow_bert.py", folder)
        (folder / "pyproject.toml").write_text(_QUICK, encoding="utf-8")
        held = _held(folder)
    return Table(
        f"Memory of the server after {RUNS} runs of slow_bert, with every fix tried",
        f"at most {BAR_MB} MB, not growing",
        f"{held[RUNS]:.0f} MB, {held[RUNS] - held[STEP]:+.0f} MB since run {STEP}",
        ("runs", "MB held"),
        [(runs, f"{megabytes:.0f}") for runs, megabytes in held.items()],
    )


def _held(folder: Path) -> dict[int, float]:
    """Resident memory, in megabytes, by the number of runs done."""
    held: dict[int, float] = {}
    with served(folder) as server:
        uri = server.open(folder / "slow_bert.py")
        for number in range(1, RUNS + 1):
            answer = server.profile(uri, "quick")
            assert answer["status"] == "done", answer
            if number == 1 or number % STEP == 0:
                held[number] = _resident(server.pid)
    return held


def _resident(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) * 1024 / 1e6
