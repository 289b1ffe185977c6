# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Reading the profiler's raw events and giving each one the expression whose mark came last before it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from .locate import MARK, Locator

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
        for event in kineto_results.events():
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


def _cpu_device_type():
    import torch

    return torch._C._autograd.DeviceType.CPU


_CPU = _cpu_device_type()


def collect(kineto_results, locator: Locator, starts: list[int]) -> dict:
    """The profile part of a recording; the server's `attribution/recording.py` says what each column means.

    `starts` holds the index of each iteration's first mark. Raises `RuntimeError` if the profiler lost marks.
    """
    stream = _Stream(kineto_results)
    marks = locator.marks
    if len(stream.mark_times) != len(marks):
        raise RuntimeError(f"the profiler kept {len(stream.mark_times)} of {len(marks)} marks")
    names, shapes = Names(), Names()
    iterations: list[dict] = [{"ops": [], "memory": [], "device_busy_ns": 0} for _ in starts]
    by_iteration = _iteration_of(starts, len(marks))
    rows = _host_rows(stream, marks, names, shapes)
    _add_device(stream.device, rows, iterations, by_iteration)
    for mark, row, event in rows:
        if mark >= 0 and not event.name().startswith(_PART_OF_CALLER):
            iterations[by_iteration[mark]]["ops"].append(row)
    for mark, size in _located(stream.memory, stream.mark_times):
        if mark >= 0 and size > 0:
            iterations[by_iteration[mark]]["memory"].append([marks[mark][0], size])
    for iteration, (first, after) in zip(iterations, _ranges(starts, len(marks)), strict=True):
        iteration["places"] = _places(locator, stream.mark_times, first, after)
        iteration["calls"] = _calls(locator, stream.mark_times, first, after)
    return {"names": names.values, "shapes": names_to_lists(shapes), "iterations": iterations}


def names_to_lists(shapes: Names) -> list[list[list[int]]]:
    return [[list(shape) for shape in call] for call in shapes.values]


def _ranges(starts: list[int], end: int) -> Iterator[tuple[int, int]]:
    return zip(starts, [*starts[1:], end], strict=True)


def _iteration_of(starts: list[int], end: int) -> list[int]:
    return [number for number, (first, after) in enumerate(_ranges(starts, end)) for _ in range(first, after)]


def _located(timed: list[tuple[int, int]], times: list[int]) -> Iterator[tuple[int, int]]:
    return ((bisect_right(times, time) - 1, value) for time, value in timed)


def _host_rows(stream: _Stream, marks, names: Names, shapes: Names) -> list[tuple[int, list, Any]]:
    """`(mark, row, event)` of each host event, nested by time on its own thread. A launch shares its operator's row."""
    rows: list[tuple[int, list, Any]] = []
    open_by_thread: dict[int, list[tuple[int, int, list]]] = defaultdict(list)
    times, mark = stream.mark_times, -1
    for start, minus_duration, _, event in stream.host:
        while mark + 1 < len(times) and times[mark + 1] <= start:
            mark += 1
        name, duration = event.name(), -minus_duration
        open_ops = open_by_thread[event.start_thread_id()]
        while open_ops and open_ops[-1][0] <= start:
            open_ops.pop()
        if open_ops and name.startswith(_PART_OF_CALLER):
            rows.append((mark, open_ops[-1][2], event))
            continue
        depth = 0
        if open_ops:
            _, parent_mark, parent = open_ops[-1]
            parent[_SELF] -= duration
            depth = parent[_DEPTH] + 1 if parent_mark == mark else 0
        place, entry = marks[mark][:2] if mark >= 0 else (-1, -1)
        shape = tuple(tuple(s) for s in event.shapes()) if name.startswith("aten::") else ()
        blocked = duration if name in _WAITS else 0
        row = [names(name), place, entry, depth, duration, duration, shapes(shape), 0, blocked]
        rows.append((mark, row, event))
        open_ops.append((start + duration, mark, row))
    return rows


def _add_device(device, rows, iterations: list[dict], by_iteration: list[int]) -> None:
    """Give each kernel's and copy's time to the host event that launched it, wherever it ran in time."""
    launches = {e.correlation_id(): (mark, row) for mark, row, e in rows if e.name().startswith(_RUNTIME)}
    operators = {e.correlation_id(): (mark, row) for mark, row, e in rows if not e.name().startswith(_RUNTIME)}
    busy: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for event in device:
        mark, row = launches.get(event.correlation_id()) or operators.get(event.linked_correlation_id()) or (-1, None)
        if row is None or mark < 0:
            continue
        row[_DEVICE] += event.duration_ns()
        busy[by_iteration[mark]].append((event.start_ns(), event.start_ns() + event.duration_ns()))
    for number, intervals in busy.items():
        iterations[number]["device_busy_ns"] = _union(sorted(intervals))


def _union(intervals: list[tuple[int, int]]) -> int:
    total = end = 0
    for start, stop in intervals:
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def _places(locator: Locator, times: list[int], first: int, after: int) -> list[list[int]]:
    """Rows `[place, runs, most runs in one call of its function, span_ns]` of one iteration."""
    runs: dict[int, int] = defaultdict(int)
    spans: dict[int, int] = defaultdict(int)
    in_entry: dict[tuple[int, int], int] = defaultdict(int)
    for index in range(first, after - 1):
        place, entry, resumed = locator.marks[index]
        spans[place] += times[index + 1] - times[index]
        if not resumed:
            runs[place] += 1
            in_entry[place, entry] += 1
    most: dict[int, int] = defaultdict(int)
    for (place, _), count in in_entry.items():
        most[place] = max(most[place], count)
    return [[place, runs[place], most[place], spans[place]] for place in spans]


def _calls(locator: Locator, times: list[int], first: int, after: int) -> list[list[int]]:
    """Rows `[place, function, span_ns]`: how long user functions ran that the expression at `place` called."""
    inside: dict[int, int] = defaultdict(int)
    for index in range(first, after - 1):
        inside[locator.marks[index][1]] += times[index + 1] - times[index]
    calls: dict[tuple[int, int], int] = defaultdict(int)
    # A call is numbered after its caller, so going down adds each one up before its caller needs it.
    for entry in sorted((e for e in inside if e >= 0), reverse=True):
        function, place, caller = locator.entries[entry]
        calls[place, function] += inside[entry]
        inside[caller] += inside[entry]
    return [[place, function, span] for (place, function), span in calls.items()]
