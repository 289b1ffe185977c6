"""Do our line shares agree with line_profiler's, where it can see?"""

from __future__ import annotations

import json
import subprocess
import sys

from tests.benchmarks.programs import PROGRAMS, Program, memory_kept, profiled
from tests.benchmarks.table import Table

from forwardlens.report.labels import line_costs

LEAST_SHARE = 0.05
_LINE_PROFILER = """
import importlib, inspect, json, sys
sys.path.insert(0, sys.argv[1])
import torch
from line_profiler import LineProfiler
model, args = importlib.import_module(sys.argv[2]).build()
profiler = LineProfiler()
wanted = set(json.loads(sys.argv[3]))
for module in model.modules():
    for _, function in inspect.getmembers(type(module), inspect.isfunction):
        if inspect.unwrap(function).__code__.co_filename in wanted and function.__name__ != "__init__":
            profiler.add_function(inspect.unwrap(function))
for _ in range(5):
    model(*args)
import time
budget = time.perf_counter() + 4
profiler.enable_by_count()
runs = 0
while runs < 5 or (time.perf_counter() < budget and runs < 100):
    model(*args)
    runs += 1
profiler.disable_by_count()
stats = profiler.get_stats()
lines = [
    [file, line, time * stats.unit / runs]
    for (file, _, _), found in stats.timings.items()
    for line, _, time in found
]
whole = max(sum(time for _, _, time in found) for found in stats.timings.values()) * stats.unit / runs
print(json.dumps([lines, whole]))
"""


@memory_kept()
def run() -> Table:
    rows: list[tuple[object, ...]] = []
    worst = 0.0
    for program in PROGRAMS:
        profile = profiled(program)
        theirs, whole = line_profiler_seconds(program, list(profile.texts))
        # line_profiler counts called functions into the calling line, so totals are what compares.
        ours = {(file, line.line): line.total_ms for file in profile.texts for line in line_costs(profile, file)}
        median = profile.forward.wall_ms.median
        for place, seconds in sorted(theirs.items(), key=lambda item: -item[1]):
            share = seconds / whole
            if share >= LEAST_SHARE:
                difference = 100 * (ours.get(place, 0.0) / median - share)
                worst = max(worst, abs(difference))
                share_of_ours = ours.get(place, 0.0) / median
                rows.append((program.name, place[1], f"{share:.1%}", f"{share_of_ours:.1%}", f"{difference:+.1f}"))
    return Table(
        "Line shares against line_profiler",
        "every line above 5 % within 3 points",
        f"at most {worst:.1f} points apart",
        ("program", "line", "line_profiler", "ForwardLens", "points"),
        rows,
    )


def line_profiler_seconds(program: Program, files: list[str]) -> tuple[dict[tuple[str, int], float], float]:
    """Seconds by line, and of the outermost forward: the function whose lines cost most in all."""
    command = [sys.executable, "-c", _LINE_PROFILER, *program.import_from, json.dumps(files)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines, whole = json.loads(done.stdout.splitlines()[-1])
    return {(file, line): seconds for file, line, seconds in lines}, whole
