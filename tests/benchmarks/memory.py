"""How much memory a run takes beyond what the model itself takes."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from tests.benchmarks.programs import PROGRAMS, Program
from tests.benchmarks.table import Table

from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import record, start_worker

_PLAIN = """
import importlib, resource, sys
sys.path.insert(0, sys.argv[1])
model, args = importlib.import_module(sys.argv[2]).build()
for _ in range(10):
    model(*args)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
MANY_EVENTS = 10_000


def run() -> Table:
    rows: list[tuple[object, ...]] = []
    worst = 0.0
    for program in PROGRAMS:
        events, ours = _worker_peak(program)
        done = subprocess.run([sys.executable, "-c", _PLAIN, *program.import_from], capture_output=True, check=True)
        more = (ours - int(done.stdout)) / 2**20
        # What a run takes whatever it records does not grow with events, so small profiles say nothing about growth.
        per_100k = more / events * 100_000
        if events >= MANY_EVENTS:
            worst = max(worst, per_100k)
        rows.append((program.name, f"{events:,}", f"{more:.0f}", f"{per_100k:.0f}" if events >= MANY_EVENTS else "-"))
    return Table(
        "Peak memory of the worker above the model's own",
        "at most 200 MiB for 100,000 events",
        f"at most {worst:.0f} MiB for 100,000 events, where a profile has more than {MANY_EVENTS:,}",
        ("program", "events", "MiB more", "MiB for 100,000 events"),
        rows,
    )


def _worker_peak(program: Program) -> tuple[int, int]:
    request, never = RunRequest(program.entry, program.folder, device="cpu"), threading.Event()
    with start_worker(request, lambda _: None, never) as worker:
        recording = record(worker, request, lambda _: None, never)
        status = Path(f"/proc/{worker.pid}/status").read_text(encoding="utf-8")
    peak = next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))
    return sum(iteration["events"] for iteration in recording["iterations"]), peak
