"""How long attribution takes against torch's own grouping of events by stack."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from tests.benchmarks.programs import SAMPLES, SLOW_BERT, recorded
from tests.benchmarks.table import Table

from forwardlens.attribution.attribute import attribute

EVENTS = 100_000
_KEY_AVERAGES = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
import torch, slow_bert
from torch.profiler import profile, ProfilerActivity
from torch._C._profiler import _ExperimentalConfig
model, args = slow_bert.build()
model(*args)
with profile(activities=[ProfilerActivity.CPU], with_stack=True, record_shapes=True,
             experimental_config=_ExperimentalConfig(verbose=True)) as p:
    for _ in range(int(sys.argv[2])):
        model(*args)
start = time.perf_counter()
events = p.events()
p.key_averages(group_by_stack_n=8)
print(json.dumps([len(events), time.perf_counter() - start]))
"""


def run() -> Table:
    recording = recorded(SLOW_BERT)
    per_run = len(recording["iterations"][0]["ops"])
    runs = EVENTS // per_run + 1
    recording["iterations"] = (recording["iterations"] * runs)[:runs]
    start = time.perf_counter()
    attribute(recording, "slow_bert.py:build")
    ours = time.perf_counter() - start
    events = runs * per_run
    done = subprocess.run(
        [sys.executable, "-c", _KEY_AVERAGES, str(SAMPLES), str(runs)], capture_output=True, text=True, check=True
    )
    their_events, theirs = json.loads(done.stdout.splitlines()[-1])
    ratio = (theirs / their_events) / (ours / events)
    return Table(
        "Attribution against `key_averages(group_by_stack_n=8)`",
        "at least 20 times faster for 100,000 events",
        f"{ratio:.0f} times faster per event",
        ("what", "events", "seconds", "seconds for 100,000"),
        [
            ("ForwardLens `attribute`", f"{events:,}", f"{ours:.2f}", f"{ours / events * EVENTS:.2f}"),
            (
                "torch `events` and `key_averages`",
                f"{their_events:,}",
                f"{theirs:.2f}",
                f"{theirs / their_events * EVENTS:.2f}",
            ),
        ],
    )
