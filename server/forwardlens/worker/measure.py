# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""The passes of a measurement, in order: warm up, time, profile with locations, clock the lines."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.profiler import profile

from . import environment, timing
from .case import Case, tensors
from .channel import Channel
from .clock import LineClock, event_costs
from .events import collect
from .failures import Failure
from .locate import Locations, Locator
from .overlay import Overlay
from .usercode import UserCode

# Timing and clock take turns until the budget is spent, between these numbers of turns; a slow forward gets fewer.
LEAST_RUNS, MOST_RUNS = 7, 60
TIMING_BUDGET_S, MOST_TIMING_S = 1.5, 10.0
PROFILE_BUDGET_S = 1.0
# Under profiler, shapes and marks a forward of many small operators is up to this much slower (docs/benchmarks.md).
TRACED_SLOWDOWN = 6
MOST_PROFILED = 3
MOST_MARKS = 400_000


def measure(case: Case, request: dict, is_user: UserCode, overlay: Overlay, channel: Channel) -> dict:
    """A recording of one case as plain data; the server's `attribution/recording.py` describes its fields."""
    device = choose_device(case, request.get("device"))
    case = case.to(device)
    synchronize = timing.synchronizer(device)
    run = Runner(case, request.get("backward", False))

    channel.progress("warm-up", "Warming up")
    one = timing.warm_up(run.fresh, synchronize, request.get("warmup"))
    run.copy_inputs = run.inputs_written()
    locations = Locations()
    channel.progress("time", f"Timing a forward of {one / 1e6:.3g} ms")
    wall, clock = _time_and_clock(run, request.get("iterations"), synchronize, is_user, locations, channel)
    channel.progress("profile", "Profiling its operators")
    profiled = _profile(run, statistics.median(wall), device, synchronize, is_user, locations)
    if request.get("save_trace"):
        _save_trace(run, device, synchronize, request["save_trace"])
    used = {function[0] for function in locations.functions}
    return {
        "environment": environment.describe(device, bool(case.module is not None and case.module.training)),
        "target": case.target,
        "described": case.described,
        "wall_ns": wall,
        "clock": clock,
        "grad": _grad_use(case, run, profiled["names"]),
        "peak_memory_bytes": _peak_memory(run, device, synchronize),
        "functions": locations.functions,
        "places": locations.places,
        "texts": {path: overlay.text(path) for path in sorted(used) if os.path.isfile(path)},
        **profiled,
    }


def choose_device(case: Case, name: str | None) -> torch.device:
    """The one asked for, else the one the case is on."""
    if name:
        return _usable_device(name)
    state = [] if case.module is None else [*case.module.parameters(), *case.module.buffers()]
    for tensor in (*state, *tensors((case.args, case.kwargs))):
        return tensor.device
    return torch.device("cpu")


def _usable_device(name: str) -> torch.device:
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise Failure("environment", f"this torch cannot use the device `{name}`: {reason}") from None
    return device


class Runner:
    """Runs the case, on fresh copies of its inputs where it writes to them."""

    def __init__(self, case: Case, backward: bool) -> None:
        self._case, self._backward = case, backward
        self._inputs = list(tensors((case.args, case.kwargs)))
        self._versions = _versions(self._inputs)
        self._kept = case.with_fresh_inputs()
        self.copy_inputs = False
        self.output: Any = None

    def inputs_written(self) -> bool:
        return _versions(self._inputs) != self._versions

    def prepare(self) -> Callable[[], Any]:
        """A forward ready to be timed; copying inputs happens here, outside the measurement."""
        case = self._kept.with_fresh_inputs() if self.copy_inputs else self._case
        return case.run if not self._backward else lambda: _run_backward(case.run())

    def fresh(self) -> Any:
        self.output = None
        self.output = self.prepare()()
        return self.output


def _versions(inputs) -> list[int | None]:
    return [None if tensor.is_inference() else tensor._version for tensor in inputs]


def _run_backward(output: Any) -> Any:
    """Backward from a scalar loss, or from the sum of all outputs that require a gradient."""
    losses = [t for t in tensors(output) if t.requires_grad]
    if losses:
        one = losses[0] if len(losses) == 1 and losses[0].dim() == 0 else None
        total = torch.stack([t.float().sum() for t in losses]).sum() if one is None else one
        total.backward()
    return output


def _time_and_clock(run, iterations, synchronize, is_user, locations, channel) -> tuple[list[int], dict]:
    """Untraced times and line clocks in turns, so that a machine that speeds up or slows down does so for both."""
    line_ns, call_ns = event_costs()
    clock = LineClock(is_user)
    clock.run(run.prepare(), synchronize)  # the first one pays for tables and code objects seen for the first time
    clock.take(locations)
    wall, rows = [], []
    started = time.perf_counter()
    while not _timed_enough(len(wall), time.perf_counter() - started, iterations):
        wall.append(timing.time_once(run.prepare(), synchronize))
        clock.run(run.prepare(), synchronize)
        rows.append(clock.take(locations))
        if len(wall) % 10 == 0:
            channel.progress("time", f"Timed {len(wall)} runs")
    return wall, {"line_ns": line_ns, "call_ns": call_ns, "iterations": rows}


def _timed_enough(runs: int, elapsed_s: float, wanted: int | None) -> bool:
    if wanted:
        return runs >= wanted
    if runs < LEAST_RUNS:
        return runs > 0 and elapsed_s > MOST_TIMING_S
    return runs >= MOST_RUNS or elapsed_s > TIMING_BUDGET_S


def _profile(run, one: float, device, synchronize, is_user, locations) -> dict:
    locator = Locator(locations, is_user, MOST_MARKS)
    # The same profiler as torch.profiler's, whose start imports the compiler for a second (torch 2.13).
    use_device = device.type if device.type in ("cuda", "xpu") else None
    planned = timing.repetitions(TRACED_SLOWDOWN * one, PROFILE_BUDGET_S, 1, MOST_PROFILED)
    starts: list[int] = []
    # Once without the profiler: tables and places are built here, not inside the recorded window.
    Locator(locations, is_user, MOST_MARKS).run(run.prepare())
    synchronize()
    with profile(use_kineto=True, use_device=use_device, record_shapes=True, profile_memory=True) as profiler:
        for _ in range(planned):
            forward = run.prepare()
            starts.append(len(locator.marks))
            locator.run(forward)
            synchronize()
            if locator.full or len(locator.marks) * (len(starts) + 1) > MOST_MARKS * len(starts):
                break
    recorded = collect(profiler.kineto_results, locator, starts)
    recorded["truncated"] = locator.full
    return recorded


def _save_trace(run, device, synchronize, path: str) -> None:
    """One forward under the profiler with stacks, as a Chrome trace; apart from what is measured, stacks cost."""
    with profile(
        use_kineto=True,
        use_device=device.type if device.type in ("cuda", "xpu") else None,
        record_shapes=True,
        profile_memory=True,
        with_stack=True,
    ) as profiler:
        run.prepare()()
        synchronize()
    try:
        profiler.export_chrome_trace(path)
    except (OSError, RuntimeError) as error:
        raise Failure("usage", f"cannot write the trace to {path}: {error}") from None


def _grad_use(case: Case, run, names: list[str]) -> dict:
    output = run.fresh()
    return {
        "grad_enabled": torch.is_grad_enabled(),
        "inference_mode": any(t.is_inference() for t in tensors(output)),
        "training": bool(case.module is not None and case.module.training),
        "outputs_require_grad": any(t.requires_grad for t in tensors(output)),
        "backward_ran": any(name.endswith("(backward)") for name in names),
    }


def _peak_memory(run, device: torch.device, synchronize) -> int | None:
    if device.type != "cuda":
        return None
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    run.prepare()()
    synchronize()
    return torch.cuda.max_memory_allocated(device) - before
