# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Reading the profiler's raw events and giving each one the expression whose mark came last before it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from .locate import MARK, UNCOUNTED, Locator
from .timeline import memory, timeline

_MEMORY = "[memory]"
_RUNTIME = ("cuda", "cu", "hip")
# Launching is part of the operator that launches, and the profiler's own buffers are nobody's work.
_PART_OF_CALLER = ("cudaLaunch", "cuLaunch", "hipLaunch", "hipExtLaunch", "Activity Buffer Request")
# Runtime calls that wait for the device: their duration is host time blocked, not work.
_WAITS = (
    "cudaStreamSynchronize",
    "cudaDeviceSynchronize",
    "cudaEventSynchronize",
    "hipStreamSynchronize",
    "hipDeviceSynchronize",
)
_BACKWARD = "autograd::engine::evaluate_function: "
# The profiler names a tensor's dtype as C++ does; what else an operator takes has names that stand for no dtype.
_DTYPES = {
    "float": "float32",
    "double": "float64",
    "c10::Half": "float16",
    "c10::BFloat16": "bfloat16",
    "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128",
    "long int": "int64",
    "long": "int64",
    "long long": "int64",
    "__int64": "int64",
    "int": "int32",
    "short int": "int16",
    "short": "int16",
    "signed char": "int8",
    "unsigned char": "uint8",
    "bool": "bool",
}
_NAME, _PLACE, _ENTRY, _DEPTH, _TOTAL, _SELF, _SHAPES, _DEVICE, _BLOCKED = range(9)


class Names:
    """Interns values in order of appearance."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._index: dict[Any, int] = {}

    def __call__(self, value: Any) -> int:
        index = self._index.get(value)
        if index is None:
            index = self._index[value] = len(self.values)
            self.values.append(value)
        return index


class _Stream:
    """The profiler's events by kind, each list in order of time."""

    def __init__(self, kineto_results) -> None:
        self.mark_times: list[int] = []
        self.memory: list[tuple[int, int]] = []
        self.host: list[Any] = []
        self.device: list[Any] = []
        self.count = 0
        for event in kineto_results.events():
            self.count += 1
            name = event.name()
            if name == MARK:
                self.mark_times.append(event.start_ns())
            elif name == _MEMORY:
                self.memory.append((event.start_ns(), event.nbytes()))
            elif event.device_type() == _CPU:
                self.host.append((event.start_ns(), -event.duration_ns(), len(self.host), event))
            else:
                self.device.append(event)
        self.mark_times.sort()
        self.memory.sort()
        self.host.sort()


_CPU = torch._C._autograd.DeviceType.CPU


@dataclass(slots=True)
class _HostOp:
    """A host event in the nest of its thread.

    `mark` was in force when it started, `where` is the mark of the expression it belongs to: the same, but for backward
    operators, which belong to their forward's.
    """

    event: Any
    name: str
    end: int
    mark: int
    where: int
    row: list[int]
    backward: bool


class Collector:
    """Turns profiled forwards into the rows of a recording, one at a time: the profiler's own events take many times
    the memory of the rows, so they are given up before the next forward is profiled.

    The server's `attribution/recording.py` says what each column means.
    """

    def __init__(self) -> None:
        self.names, self.shapes = Names(), Names()
        self.iterations: list[dict] = []
        self.timeline: dict = {}

    def add(self, kineto_results, locator: Locator, keep_timeline: bool = False) -> None:
        """Read one forward. Raises `RuntimeError` if the profiler lost marks."""
        stream = _Stream(kineto_results)
        marks, times = locator.marks, stream.mark_times
        if len(times) != len(marks):
            raise RuntimeError(f"the profiler kept {len(times)} of {len(marks)} marks")
        nest = _Nest(marks, times, self.names, self.shapes)
        for start, minus_duration, _, event in stream.host:
            nest.add(event, start, -minus_duration)
        stream.host.clear()
        kernels, busy = _add_device(stream.device, nest.ops, self.names)
        counted = [op for op in nest.ops if op.mark >= 0 and not op.name.startswith(_PART_OF_CALLER)]
        self.iterations.append(
            {
                "ops": [op.row for op in counted],
                "memory": [[marks[mark][0], size] for mark, size in _located(stream.memory, times) if size > 0],
                "device_busy_ns": busy,
                "events": stream.count,
                "places": _places(locator, times),
                "calls": _calls(locator, times),
                "backward": _backward(nest.ops, marks),
            }
        )
        if keep_timeline:
            self.timeline = timeline(locator, times, _host_rows(counted), kernels)
            del stream, nest, kernels  # they take more memory than anything else
            self.timeline["memory"] = memory(kineto_results, marks, times)

    def rows(self) -> dict:
        shapes = [[list(shape) for shape in call] for call, _ in self.shapes.values]
        dtypes = [[_DTYPES.get(name, "") for name in call] for _, call in self.shapes.values]
        return {
            "names": self.names.values,
            "shapes": shapes,
            "dtypes": dtypes,
            "iterations": self.iterations,
            "timeline": self.timeline,
        }


def _located(timed: list[tuple[int, int]], times: list[int]) -> Iterator[tuple[int, int]]:
    """`(mark, value)` of each `(time, value)` after the first mark."""
    marks = ((bisect_right(times, time) - 1, value) for time, value in timed)
    return ((mark, value) for mark, value in marks if mark >= 0)


class _Nest:
    """Host events by time of start become operators inside operators, thread by thread."""

    def __init__(self, marks: list[tuple[int, int, int]], times: list[int], names: Names, shapes: Names) -> None:
        self.ops: list[_HostOp] = []
        self._names, self._shapes = names, shapes
        self._marks, self._times, self._mark = marks, times, -1
        self._open: dict[int, list[_HostOp]] = defaultdict(list)
        self._forward: dict[int, int] = {}
        self._last_backward = -1

    def add(self, event, start: int, duration: int) -> None:
        while self._mark + 1 < len(self._times) and self._times[self._mark + 1] <= start:
            self._mark += 1
        open_ops = self._open[event.start_thread_id()]
        while open_ops and open_ops[-1].end <= start:
            open_ops.pop()
        parent = open_ops[-1] if open_ops else None
        name = event.name()
        if parent is not None and name.startswith(_PART_OF_CALLER):
            self.ops.append(_HostOp(event, name, parent.end, parent.mark, parent.where, parent.row, parent.backward))
            return
        starts_backward = name.startswith(_BACKWARD)
        if parent is not None and parent.backward and parent.name == name:
            return  # the engine's wrapper and the function it evaluates are one to a reader
        # User code that runs inside a backward, such as a checkpoint's second forward, has marks of its own.
        inherits = parent is not None and parent.backward and parent.mark == self._mark
        where = self._where(event, parent if inherits else None, starts_backward)
        backward = starts_backward or inherits
        op = self._op(event, name.removeprefix(_BACKWARD), start + duration, where, parent, backward)
        if parent is not None:
            parent.row[_SELF] -= duration
        self.ops.append(op)
        open_ops.append(op)

    def _where(self, event, backward_parent: _HostOp | None, starts_backward: bool) -> int:
        sequence = event.sequence_nr()
        if starts_backward:
            # What accumulates a gradient has no forward of its own; it follows the operator whose gradient it takes.
            self._last_backward = self._forward.get(sequence, self._last_backward)
            return self._last_backward if self._last_backward >= 0 else self._mark
        if backward_parent is not None:
            return backward_parent.where
        if sequence >= 0:
            self._forward[sequence] = self._mark  # the last operator with a number is the one that records the node
        return self._mark

    def _op(self, event, name: str, end: int, where: int, parent: _HostOp | None, backward: bool) -> _HostOp:
        depth = parent.row[_DEPTH] + 1 if parent is not None and parent.where == where else 0
        place, entry = self._marks[where][:2] if where >= 0 else (-1, -1)
        shapes = (tuple(map(tuple, event.shapes())), tuple(event.dtypes())) if name.startswith("aten::") else ((), ())
        duration = event.duration_ns()
        blocked = duration if name in _WAITS else 0
        label = self._names(f"{name} (backward)" if backward else name)
        row = [label, place, entry, depth, duration, duration, self._shapes(shapes), 0, blocked]
        return _HostOp(event, name, end, self._mark, where, row, backward)


def _host_rows(ops: list[_HostOp]) -> list[tuple]:
    """Rows `(start, end, name, place, thread, shapes)` of what ran on the host's threads."""
    return [
        (
            op.end - op.event.duration_ns(),
            op.end,
            op.row[_NAME],
            op.row[_PLACE],
            op.event.start_thread_id(),
            op.row[_SHAPES],
        )
        for op in ops
    ]


def _add_device(device, ops: list[_HostOp], names: Names) -> tuple[list[tuple], int]:
    """Give each kernel's and copy's time to the operator that launched it.

    Rows `(start, end, name, place, device, stream, launch)` of them, and how long the device was busy.
    """
    launches = {op.event.correlation_id(): op for op in ops if op.name.startswith(_RUNTIME)}
    operators = {op.event.correlation_id(): op for op in ops if not op.name.startswith(_RUNTIME)}
    rows: list[tuple] = []
    for event in device:
        op = launches.get(event.correlation_id()) or operators.get(event.linked_correlation_id())
        if op is not None and op.mark >= 0:
            op.row[_DEVICE] += event.duration_ns()
            start, end = event.start_ns(), event.start_ns() + event.duration_ns()
            lane = (event.device_index(), event.device_resource_id())
            rows.append((start, end, names(event.name()), op.row[_PLACE], *lane, op.event.start_ns()))
    return rows, _union(sorted(row[:2] for row in rows))


def _union(intervals: list[tuple[int, int]]) -> int:
    total = end = 0
    for start, stop in intervals:
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def _places(locator: Locator, times: list[int]) -> list[list[int]]:
    """Rows `[place, runs, most runs in one call of its function, span_ns]`. A place runs as often as its busiest
    instruction.
    """
    spans: dict[int, int] = defaultdict(int)
    counts: dict[tuple[int, int, int], int] = defaultdict(int)
    for index in range(len(times) - 1):
        mark = locator.marks[index]
        spans[mark[0]] += times[index + 1] - times[index]
        counts[mark] += mark[2] != UNCOUNTED
    runs: dict[tuple[int, int], int] = defaultdict(int)
    most: dict[int, int] = defaultdict(int)
    for (place, _, instruction), count in counts.items():
        runs[place, instruction] += count
        most[place] = max(most[place], count)
    busiest: dict[int, int] = defaultdict(int)
    for (place, _), count in runs.items():
        busiest[place] = max(busiest[place], count)
    return [[place, busiest[place], most[place], span] for place, span in spans.items()]


def _calls(locator: Locator, times: list[int]) -> list[list[int]]:
    """Rows `[place, function, span_ns]`: how long user functions ran that the expression at `place` called."""
    inside: dict[int, int] = defaultdict(int)
    for index in range(len(times) - 1):
        inside[locator.marks[index][1]] += times[index + 1] - times[index]
    calls: dict[tuple[int, int], int] = defaultdict(int)
    # A call is numbered after its caller, so going down adds each one up before its caller needs it.
    for entry in sorted((e for e in inside if e >= 0), reverse=True):
        function, place, caller = locator.entries[entry]
        calls[place, function] += inside[entry]
        inside[caller] += inside[entry]
    return [[place, function, span] for (place, function), span in calls.items()]


def _backward(ops: list[_HostOp], marks) -> list[list[int]]:
    """Rows `[running place, forward's place, ns]`: backward work done while one place ran, for another's sake."""
    moved: dict[tuple[int, int], int] = defaultdict(int)
    for op in ops:
        if op.backward and op.mark >= 0 and op.row[_DEPTH] == 0 and op.where >= 0:
            moved[marks[op.mark][0], marks[op.where][0]] += op.row[_TOTAL]
    return [[running, place, span] for (running, place), span in moved.items()]
