# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""The passes of a measurement, in order: warm up, time, profile with locations, clock the lines."""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Generator
from types import FrameType
from typing import Any

import torch
from torch.autograd.profiler import profile

from . import environment, timing
from .case import Case, tensors
from .channel import Channel
from .clock import LineClock, event_costs
from .events import Collector
from .failures import Failure, from_stack
from .limits import DEFAULT_S, Limit, peak_memory
from .locate import Locations, Locator
from .overlay import Overlay
from .usercode import UserCode
from .values import Uncopyable, fingerprint

# Timing and clock take turns: this many, for so long at least that one hiccup of the machine is not all they see.
# A slow forward gets fewer.
LEAST_RUNS, ENOUGH_RUNS, MOST_RUNS = 7, 30, 200
ENOUGH_TIMING_S, TIMING_BUDGET_S, MOST_TIMING_S = 0.5, 1.5, 10.0
PROFILE_BUDGET_S = 1.0
# With what the profiler does at its end, and reading its events: the user waits for them, and no forward runs.
PROFILE_READ_BUDGET_S = 0.6
# Under profiler, shapes and marks a forward of many small operators is up to this much slower (docs/benchmarks.md).
TRACED_SLOWDOWN = 6
LEAST_PROFILED, MOST_PROFILED = 2, 3
# To warm up, to profile, to time and to clock.
LEAST_CALLS_IN_LOOP = 4
# What bounds a profile: expressions run by user code, and time and memory for library code that runs without any.
MOST_MARKS = 100_000
MOST_PROFILE_BYTES = 128 << 20
PROFILE_LIMIT_S = 20.0
# An operator takes a microsecond and a half at the least: less than 300,000 in this time.
SHORT_NS = 0.45e9
PART_S = 10.0


def measure(case: Case, request: dict, is_user: UserCode, overlay: Overlay, channel: Channel) -> dict:
    """A recording of one case as plain data; the server's `attribution/recording.py` describes its fields."""
    device = choose_device(case, request.get("device"))
    if request.get("device"):
        case = case.to(device)
    bench = _Bench(Runner(case, request.get("backward", False)), device, is_user, channel)

    channel.progress("warm-up", "Warming up")
    seconds = request.get("time_limit") or DEFAULT_S
    with Limit(seconds, when_stuck=bench.give_up) as limit:
        first = timing.time_once(bench.run.look, bench.synchronize)
    passes = bench.in_part(min(seconds, PART_S)) if limit.reached else bench.whole(first, request)
    if request.get("save_trace"):
        _save_trace(bench.run.prepare(), device, bench.synchronize, request["save_trace"])
    peak = None if limit.reached else _peak_memory(bench.run, device, bench.synchronize)
    return {**_described(case, bench, overlay, passes), "peak_memory_bytes": peak}


class ProgramEnded(Exception):
    """The program makes no more forwards."""


# A measurement that asks for one forward after the other and gets each from whoever drives it.
Passes = Generator[None, Callable[[], Any], dict]


def measure_in_loop(case: Case, request: dict, is_user: UserCode, overlay: Overlay, channel: Channel) -> Passes:
    """The recording of forwards that the program itself makes, for a case that cannot be replayed.

    Each `yield` asks for the program's next forward. Ends by itself, or in part when `ProgramEnded` is thrown in.
    Raises `Failure` if the program made too few calls.
    """
    channel.progress("time", "Measuring the calls that the program makes")
    bench = _Bench(Runner(case, backward=False, repeats=False), choose_device(case, None), is_user, channel)
    passes = yield from bench.in_loop(request.get("save_trace"))
    with case.ambient.entered():
        return {**_described(case, bench, overlay, passes), "peak_memory_bytes": None}


def _described(case: Case, bench: _Bench, overlay: Overlay, passes: dict) -> dict:
    """The passes with what they were made on."""
    used = {function[0] for function in bench.locations.functions}
    return {
        "environment": environment.describe(bench.device, bool(case.module is not None and case.module.training)),
        "target": case.target,
        "described": case.described,
        "grad": _grad_use(case, bench.run, passes["names"]),
        "functions": bench.locations.functions,
        "places": bench.locations.places,
        "texts": {path: overlay.text(path) for path in sorted(used) if overlay.has(path)},
        **passes,
    }


class _Bench:
    """The passes over one case, and what they share."""

    def __init__(self, run: Runner, device: torch.device, is_user: UserCode, channel: Channel) -> None:
        self.run, self.device, self._is_user, self._channel = run, device, is_user, channel
        self.synchronize = timing.synchronizer(device)
        self.locations = Locations()

    def give_up(self, frame: FrameType | None) -> None:
        """The forward can be ended with its process only."""
        reason = "the forward takes too long and does not let itself be stopped"
        failure = from_stack(frame, reason, "timing it", self._is_user, "; make its inputs smaller")
        self._channel.send("failed", **failure.fields())
        self._channel.leave(1)

    def whole(self, first: int, request: dict) -> dict:
        """Every pass over whole forwards; `first` is how long the first one took."""
        one = timing.warm_up(self.run.look, self.synchronize, request.get("warmup"), first)
        self.run.copy_inputs = self.run.inputs_written()
        self._channel.progress("time", f"Timing a forward of {one / 1e6:.3g} ms")
        wall, clock = self._time_and_clock(request.get("iterations"))
        return {"stopped": False, "wall_ns": wall, "clock": clock, **self._profile(statistics.median(wall))}

    def in_part(self, seconds: float) -> dict:
        """One look at the beginning of a forward that goes on and on: its time is that of the part that was clocked."""
        self._channel.progress("time", f"The forward goes on; clocking its first {seconds:.0f} s")
        clock = LineClock(self._is_user)
        line_ns, call_ns = event_costs()
        start = time.perf_counter_ns()
        with Limit(seconds):
            clock.run(self.run.prepare(), self.synchronize)
        wall = [time.perf_counter_ns() - start]
        rows = [clock.take(self.locations)]
        clocked = {"line_ns": line_ns, "call_ns": call_ns, "iterations": rows}
        return {"stopped": True, "wall_ns": wall, "clock": clocked, **self._profile(wall[0])}

    def _time_and_clock(self, iterations: int | None) -> tuple[list[int], dict]:
        """Untraced times and line clocks in turns, so that a machine that speeds up or slows down does so for both."""
        line_ns, call_ns = event_costs()
        clock = LineClock(self._is_user)
        # The first one pays for tables and code objects seen for the first time.
        clock.run(self.run.prepare(), self.synchronize)
        clock.take(self.locations)
        wall, rows = [], []
        started = time.perf_counter()
        while not _timed_enough(len(wall), time.perf_counter() - started, iterations):
            wall.append(timing.time_once(self.run.prepare(), self.synchronize))
            clock.run(self.run.prepare(), self.synchronize)
            rows.append(clock.take(self.locations))
            if len(wall) % 10 == 0:
                self._channel.progress("time", f"Timed {len(wall)} runs")
        return wall, {"line_ns": line_ns, "call_ns": call_ns, "iterations": rows}

    def _profile(self, one: float) -> dict:
        """Profile forwards one by one, fewer where they are long or run much."""
        self._channel.progress("profile", "Profiling its operators")
        planned = timing.repetitions(TRACED_SLOWDOWN * one, PROFILE_BUDGET_S, 1, MOST_PROFILED)
        if planned > 1:
            # Once without the profiler: tables and places are built here, not inside the recorded window.
            Locator(self.locations, self._is_user, MOST_MARKS).run(self.run.prepare())
            self.synchronize()
        collector, truncated, last = Collector(), False, False
        while not last:
            last, cut = self._profile_one(collector, self.run.prepare(), one, planned)
            truncated = truncated or cut
        return {**collector.rows(), "truncated": truncated}

    def _profile_one(
        self, collector: Collector, forward: Callable[[], Any], one: float, planned: int
    ) -> tuple[bool, bool]:
        """Profile a forward of `one` nanoseconds; whether it was the last one, and whether it was cut off."""
        locator = Locator(self.locations, self._is_user, MOST_MARKS)
        started = time.perf_counter()
        with profile(**_profiler_options(self.device)) as profiler:
            with Limit(PROFILE_LIMIT_S, _memory_bound(one)) as limit:
                locator.run(forward)
            self.synchronize()
        done = len(collector.iterations) + 1
        # Reading what was recorded takes about as long again.
        seconds = 2 * (time.perf_counter() - started) * (done + 1)
        enough = LEAST_PROFILED if seconds > PROFILE_READ_BUDGET_S else MOST_PROFILED
        last = done >= min(planned, enough) or len(locator.marks) * (done + 1) > MOST_MARKS
        # The last one shows the timeline: the machine has settled by then. A program may end before it.
        collector.add(profiler.kineto_results, locator, keep_timeline=last or not self.run.repeats)
        return last, locator.full or limit.reached

    def in_loop(self, trace: str | None) -> Passes:
        """One pass over each forward that the program itself makes, in turns, until there are enough or no more."""
        line_ns, call_ns = event_costs()
        clock = LineClock(self._is_user)
        collector, truncated, last = Collector(), False, False
        wall: list[int] = []
        rows: list[list] = []
        try:
            self.run.note((yield)())
            while len(wall) < LEAST_RUNS:
                if not last:
                    last, cut = self._profile_one(collector, (yield), statistics.median(wall or [0]), MOST_PROFILED)
                    truncated = truncated or cut
                wall.append(timing.time_once((yield), self.synchronize))
                clock.run((yield), self.synchronize)
                rows.append(clock.take(self.locations))
            if trace:
                _save_trace((yield), self.device, self.synchronize, trace)
        except ProgramEnded:
            if not rows:
                raise Failure(
                    "entry", f"it is called fewer than {LEAST_CALLS_IN_LOOP} times; let the program call it more often"
                ) from None
        clocked = {"line_ns": line_ns, "call_ns": call_ns, "iterations": rows}
        return {"stopped": False, "wall_ns": wall, "clock": clocked, **collector.rows(), "truncated": truncated}


def _memory_bound(one: float) -> int | None:
    """How much memory profiling may take, for a forward of `one` nanoseconds.

    A short forward has no time for too many operators, and the profiler keeps gradients alive that a backward would
    free, so only a long one is bound; the model's own peak varies too, the more the larger it is.
    """
    return None if one < SHORT_NS else MOST_PROFILE_BYTES + peak_memory() // 4


def _profiler_options(device: torch.device) -> dict:
    # The same recorder as torch.profiler's, whose start imports the compiler for a second (torch 2.13).
    use_device = device.type if device.type in ("cuda", "xpu") else None
    return {"use_kineto": True, "use_device": use_device, "record_shapes": True, "profile_memory": True}


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
    """Runs the case, on fresh copies of its inputs where it writes to them.

    Raises `Failure` if they cannot be copied.
    """

    def __init__(self, case: Case, backward: bool, repeats: bool = True) -> None:
        self._case, self._backward, self.repeats = case, backward, repeats
        self._before, self._kept = None, case
        if repeats:
            self._keep_inputs()
        self.copy_inputs = False
        self.output_requires_grad = self.output_is_inference = False

    def _keep_inputs(self) -> None:
        self._before = fingerprint((self._case.args, self._case.kwargs))
        try:
            self._kept = self._case.with_fresh_inputs()
        except Uncopyable as error:
            raise Failure("entry", f"the inputs that {self._case.described} gives hold {error}; {_MAKE_THEM}") from None

    def inputs_written(self) -> bool:
        """Whether the forward changed its inputs: a tensor, or what holds tensors, such as a cache that grows."""
        return fingerprint((self._case.args, self._case.kwargs)) != self._before

    def prepare(self) -> Callable[[], Any]:
        """A forward ready to be timed; copying inputs happens here, outside the measurement."""
        case = self._kept.with_fresh_inputs() if self.copy_inputs else self._case
        return case.run if not self._backward else lambda: _run_backward(case.run())

    def look(self) -> None:
        """One forward, of whose output only the facts are kept: the output itself may hold a whole graph."""
        self.note(self.prepare()())

    def note(self, output: Any) -> None:
        found = tensors(output)
        self.output_requires_grad = any(t.requires_grad for t in found)
        self.output_is_inference = any(t.is_inference() for t in found)


_MAKE_THEM = "return a callable that makes them anew, such as `lambda: model(batches())`"


def _run_backward(output: Any) -> Any:
    """Backward from a scalar loss, or from the sum of all outputs that require a gradient."""
    losses = [t for t in tensors(output) if t.requires_grad]
    if losses:
        one = losses[0] if len(losses) == 1 and losses[0].dim() == 0 else None
        total = torch.stack([t.float().sum() for t in losses]).sum() if one is None else one
        total.backward()
    return output


def _timed_enough(runs: int, elapsed_s: float, wanted: int | None) -> bool:
    if wanted:
        return runs >= wanted
    if runs < LEAST_RUNS:
        return runs > 0 and elapsed_s > MOST_TIMING_S
    if runs < ENOUGH_RUNS:
        return elapsed_s > TIMING_BUDGET_S
    return runs >= MOST_RUNS or elapsed_s > ENOUGH_TIMING_S


def _save_trace(forward: Callable[[], Any], device, synchronize, path: str) -> None:
    """One forward under the profiler with stacks, as a Chrome trace; apart from what is measured, stacks cost."""
    with profile(**_profiler_options(device), with_stack=True) as profiler:
        forward()
        synchronize()
    part = f"{path}.part"
    try:
        profiler.export_chrome_trace(part)
        _check_whole(part)
        os.replace(part, path)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise Failure("usage", f"cannot write the trace to {path}: {reason}; name a file elsewhere") from None
    finally:
        for leftover in (part, f"{part}.tmp"):
            with contextlib.suppress(OSError):
                os.remove(leftover)


def _check_whole(path: str) -> None:
    """The profiler says nothing about a trace that it could not write, or not to its end. Raises `RuntimeError`."""
    if not os.path.exists(path):
        raise RuntimeError("the disk is full, or the folder may not be written to")
    with open(path, "rb") as file:
        file.seek(max(os.path.getsize(path) - 16, 0))
        if not file.read().rstrip().endswith(b"}"):
            raise RuntimeError("the disk is full")


def _grad_use(case: Case, run: Runner, names: list[str]) -> dict:
    return {
        "grad_enabled": case.ambient.grad,
        "inference_mode": run.output_is_inference,
        "training": bool(case.module is not None and case.module.training),
        "outputs_require_grad": run.output_requires_grad,
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
