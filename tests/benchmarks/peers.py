"""What other tools say about the ten costliest lines of the sample."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.benchmarks.line_shares import line_profiler_seconds
from tests.benchmarks.programs import SAMPLES, SLOW_BERT, profiled
from tests.benchmarks.table import Table

LINES = 10
# Scalene samples: it needs seconds to say anything.
SCALENE_RUNS = 600
_DRIVER = f"""
import sys
sys.path.insert(0, {str(SAMPLES)!r})
import slow_bert
model, args = slow_bert.build()
for _ in range(int(sys.argv[1])):
    model(*args)
"""
_STACKS = f"""
import collections, json, re, sys
sys.path.insert(0, {str(SAMPLES)!r})
import slow_bert, torch
from torch._C._profiler import _ExperimentalConfig
from torch.profiler import ProfilerActivity, profile
model, args = slow_bert.build()
for _ in range(5):
    model(*args)
verbose = _ExperimentalConfig(verbose=True)
with profile(activities=[ProfilerActivity.CPU], with_stack=True, experimental_config=verbose) as profiler:
    for _ in range(3):
        model(*args)
lines, whole = collections.Counter(), 0.0
for event in profiler.events():
    if event.name.startswith("aten::"):
        whole += event.self_cpu_time_total
        frame = next((f for f in event.stack if "slow_bert.py" in f), None)
        if frame:
            lines[int(re.search(r"[(](\\d+)[)]", frame).group(1))] += event.self_cpu_time_total
print(json.dumps({{line: time / whole for line, time in lines.items()}}))
"""
Shares = dict[int, float]


def run() -> Table:
    profile = profiled(SLOW_BERT)
    ours: Shares = defaultdict(float)
    for cost in profile.lines:
        ours[cost.span.line] += cost.share
    theirs = [_line_profiler(), _scalene(), _torch_profiler()]
    source = SLOW_BERT.file.read_text(encoding="utf-8").splitlines()
    top = sorted(ours, key=lambda line: -ours[line])[:LINES]
    rows = [
        (f"{line} `{source[line - 1].strip()[:60]}`", *(_percent(tool.get(line)) for tool in (ours, *theirs)))
        for line in top
    ]
    elsewhere = [sum(share for line, share in tool.items() if line not in top) for tool in (ours, *theirs)]
    rows.append(("all other lines", *(_percent(share) for share in elsewhere)))
    return Table(
        "Side by side on slow_bert: own share of the ten costliest lines",
        "a table, losses included",
        "line_profiler and Scalene know the lines but not the operators; torch.profiler's stacks know `def` lines only",
        ("line", "ForwardLens", "line_profiler", "Scalene", "torch.profiler with stacks"),
        rows,
    )


def _percent(share: float | None) -> str:
    return "nothing" if share is None else f"{share:.1%}"


def _line_profiler() -> Shares:
    """Shares of the lines that call no other line of the file, and nothing for the rest: its times are inclusive."""
    seconds, whole = line_profiler_seconds(SLOW_BERT, [str(SLOW_BERT.file)])
    calling = {cost.span.line for cost in profiled(SLOW_BERT).lines if cost.total_ms > cost.self_ms * 1.01}
    return {line: time / whole for (_, line), time in seconds.items() if line not in calling}


def _scalene() -> Shares:
    with tempfile.TemporaryDirectory() as folder:
        driver, output = Path(folder) / "drive.py", Path(folder) / "scalene.json"
        driver.write_text(_DRIVER, encoding="utf-8")
        options = ["--cpu-only", "-o", str(output), "--program-path", str(SAMPLES)]
        command = [sys.executable, "-m", "scalene", "run", *options, str(driver), str(SCALENE_RUNS)]
        subprocess.run(command, capture_output=True, check=True, cwd=folder)
        report = json.loads(output.read_text(encoding="utf-8"))
    lines = report["files"][str(SLOW_BERT.file)]["lines"]
    kinds = ("n_cpu_percent_python", "n_cpu_percent_c", "n_sys_percent")
    shares = {line["lineno"]: sum(line[kind] for kind in kinds) / 100 for line in lines}
    return {line: share for line, share in shares.items() if share}


def _torch_profiler() -> Shares:
    done = subprocess.run([sys.executable, "-c", _STACKS], capture_output=True, text=True, check=True)
    return {int(line): share for line, share in json.loads(done.stdout.splitlines()[-1]).items()}
