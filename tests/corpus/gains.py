"""How much faster a case gets with our fix and with the one made by hand, all three run in turns in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.case import Case

_SECONDS = 2.0
_MEASURE = """
import importlib.util, json, statistics, sys, time
import torch

torch.set_num_threads(1)

def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module

def seconds(model, inputs):
    start = time.perf_counter()
    model(*inputs)
    return time.perf_counter() - start

case, ours, budget = sys.argv[1], sys.argv[2], float(sys.argv[3])
old = load(case, "case")
runs = [old.build(), old.build_fixed()] + ([load(ours, "ours").build()] if ours else [])
for run in runs:
    for _ in range(3):
        seconds(*run)
times = [[] for _ in runs]
end = time.perf_counter() + budget
while len(times[0]) < 7 or (time.perf_counter() < end and len(times[0]) < 400):
    for run, taken in zip(runs, times):
        taken.append(seconds(*run))
print(json.dumps([statistics.median(a / b for a, b in zip(times[0], other)) for other in times[1:]]))
"""


@dataclass(frozen=True)
class Gains:
    by_hand: float
    ours: float | None


def gains(case: Case, fixed: Path | None) -> Gains:
    """`fixed` is the case with our fixes, None if there are none."""
    command = [sys.executable, "-c", _MEASURE, str(case.file), str(fixed or ""), str(_SECONDS)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    measured: list[float] = json.loads(done.stdout.splitlines()[-1])
    return Gains(measured[0], measured[1] if len(measured) > 1 else None)
