"""How long trying one fix takes in a worker that has tried others before."""

from __future__ import annotations

import statistics
import threading
import time

from tests.benchmarks.programs import SLOW_BERT
from tests.benchmarks.table import Table

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.fixes import trial
from forwardlens.runner.request import RunRequest
from forwardlens.runner.runner import start_worker

ATTEMPTS = 3
BAR_S = 2.0


def run() -> Table:
    request, never = RunRequest(SLOW_BERT.entry, SLOW_BERT.folder, device="cpu"), threading.Event()
    result = workflow.profile(request, Settings(), lambda _: None, never)
    fixes = [(finding, fix) for finding in result.findings for fix in finding.fixes if trial.worth_trying(fix)]
    seconds: dict[str, list[float]] = {}
    outcomes: dict[str, str] = {}
    with start_worker(result.request, lambda _: None, never) as worker:
        for _ in range(1 + ATTEMPTS):
            for finding, fix in fixes:
                start = time.perf_counter()
                tried = trial.try_fix(worker, result.request, result.sources, finding, fix, never)
                name = f"{finding.rule}, line {finding.span.line}"
                seconds.setdefault(name, []).append(time.perf_counter() - start)
                outcomes[name] = tried.verified.outcome if tried.verified else "not tried"
    worst = max(statistics.median(times[1:]) for times in seconds.values())
    return Table(
        "Trying one fix of slow_bert in a worker that is warm",
        f"at most {BAR_S:.0f} s",
        f"at most {worst:.2f} s",
        ("fix", "seconds, each time", "outcome"),
        [(name, ", ".join(f"{s:.2f}" for s in times[1:]), outcomes[name]) for name, times in seconds.items()],
    )
