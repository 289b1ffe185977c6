# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""The truth: how long a forward takes when nobody is looking."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch

# A forward counts as steady once the medians of two consecutive windows agree this well.
SETTLED = 0.05
WINDOW = 3
MOST_WARMUP_RUNS = 21
WARMUP_BUDGET_S = 4.0


def synchronizer(device: torch.device) -> Callable[[], None]:
    """Waits until the device has done all it was given; nothing to do on a CPU."""
    module = getattr(torch, device.type, None)
    if device.type == "cpu" or module is None or not hasattr(module, "synchronize"):
        return lambda: None
    return module.synchronize


def time_once(run: Callable[[], object], synchronize: Callable[[], None]) -> int:
    """Nanoseconds of one synchronised run."""
    synchronize()
    start = time.perf_counter_ns()
    result = run()
    synchronize()
    elapsed = time.perf_counter_ns() - start
    del result  # freeing the outputs is the caller's cost, not the forward's
    return elapsed


def warm_up(run: Callable[[], object], synchronize: Callable[[], None], runs: int | None, first: int = 0) -> int:
    """Run until the median settles, at least 3 times (or exactly `runs` times); the last median in nanoseconds.

    `first` is what a run before took: where that is more than the whole budget, it was warm-up enough.
    """
    if runs is None and first > WARMUP_BUDGET_S * 1e9:
        return first
    times = [time_once(run, synchronize) for _ in range(WINDOW if runs is None else max(runs, 1))]
    if runs is not None:
        return int(statistics.median(times[-WINDOW:]))
    while len(times) < MOST_WARMUP_RUNS and sum(times) < WARMUP_BUDGET_S * 1e9:
        before = statistics.median(times[-WINDOW:])
        times += [time_once(run, synchronize) for _ in range(WINDOW)]
        if abs(statistics.median(times[-WINDOW:]) - before) <= SETTLED * before:
            break
    return int(statistics.median(times[-WINDOW:]))


def repetitions(one_ns: float, budget_s: float, least: int, most: int) -> int:
    """How many runs of `one_ns` fit into a budget, within bounds."""
    return max(least, min(most, int(budget_s * 1e9 / max(one_ns, 1))))
