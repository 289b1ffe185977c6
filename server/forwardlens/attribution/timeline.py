"""A recorded forward in order of time, on the clock of the untraced ones.

Under the profiler a forward of many small operators takes several times as long, and not evenly so. The line clock
knows what each line takes when nobody looks, so every stretch of profiled time in which one line ran is stretched or
shrunk to that line's share: an event is as long here as the numbers beside its line say. What a device does takes as
long as was measured; it starts where its launch is now, after the measured delay, once its stream is free.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from forwardlens.attribution.calibrate import LineTimes
from forwardlens.attribution.places import Places
from forwardlens.attribution.recording import OUTSIDE, RawKernel, RawTimeline, Recording
from forwardlens.model import Held, Lane, MemoryPoint, MemoryUse, Span, Timeline, TimelineEvent

_MS = 1e6
_NOBODY = (OUTSIDE, 0)


def timeline(recording: Recording, times: LineTimes, places: Places, median_ns: float) -> Timeline:
    raw = recording["timeline"]
    clock = _calibrated_clock(recording, times, median_ns)
    lanes = _Lanes()
    events = [
        *_lines(recording, places, clock, lanes),
        *_operators(recording, places, clock, lanes),
        *_kernels(recording, places, clock, lanes),
    ]
    left_out = raw["left_out"].values()
    return Timeline(
        tuple(lanes.all),
        tuple(sorted(events, key=lambda event: (event.lane, event.start_ms, event.depth))),
        _memory(raw, places, clock),
        median_ns / _MS,
        raw["span_ns"] / _MS,
        sum(count for count, _ in left_out),
        sum(span for _, span in left_out) / _MS,
    )


class Clock:
    """A rising, piecewise linear map from profiled to calibrated nanoseconds."""

    def __init__(self, stretches: Iterable[tuple[int, float]]) -> None:
        """`stretches` are `(profiled end, calibrated length)`, one after the other from 0 on."""
        self._profiled, self._calibrated = [0], [0.0]
        for end, length in stretches:
            self._profiled.append(end)
            self._calibrated.append(self._calibrated[-1] + length)

    def __call__(self, profiled: int) -> float:
        at = bisect_right(self._profiled, profiled) - 1
        if at < 0 or at + 1 == len(self._profiled):
            return self._calibrated[max(at, 0)]
        before, after = self._profiled[at], self._profiled[at + 1]
        part = (profiled - before) / (after - before)
        return self._calibrated[at] + part * (self._calibrated[at + 1] - self._calibrated[at])


def _calibrated_clock(recording: Recording, times: LineTimes, median_ns: float) -> Clock:
    raw = recording["timeline"]
    stretches = list(_stretches(recording))
    own: dict[tuple[int, int], int] = defaultdict(int)
    for start, end, key in stretches:
        own[key] += end - start
    wanted = {key: times.outside if key == _NOBODY else times.lines.get(key, 0.0) for key in own}
    # The host waits after the last line until the device is done.
    done = max((row[0] + row[1] for row in raw["device"]), default=0)
    waiting = times.waiting if done > raw["span_ns"] else 0.0
    total = sum(wanted.values()) + waiting
    scale = median_ns / total if total else 0.0
    lengths = [(end, (end - start) * wanted[key] / own[key] * scale) for start, end, key in stretches]
    return Clock([*lengths, (done, waiting * scale)] if waiting else lengths)


def _stretches(recording: Recording) -> Iterator[tuple[int, int, tuple[int, int]]]:
    """`(start, end, function and line)` of the innermost line that ran, without gaps."""
    raw = recording["timeline"]
    inside: list[tuple[int, tuple[int, int]]] = [(raw["span_ns"], _NOBODY)]
    now = 0
    for start, duration, place in sorted(raw["lines"], key=lambda row: (row[0], -row[1])):
        while len(inside) > 1 and inside[-1][0] <= start:
            end, key = inside.pop()
            if end > now:
                yield now, end, key
                now = end
        if start > now:
            yield now, start, inside[-1][1]
            now = start
        function, line = recording["places"][place][:2]
        inside.append((start + duration, (function, line)))
    while inside:
        end, key = inside.pop()
        if end > now:
            yield now, end, key
            now = end


class _Lanes:
    """Numbers lanes in order of appearance."""

    def __init__(self) -> None:
        self.all: list[Lane] = []

    def number(self, lane: Lane) -> int:
        if lane not in self.all:
            self.all.append(lane)
        return self.all.index(lane)


def _lines(recording: Recording, places: Places, clock: Clock, lanes: _Lanes) -> Iterator[TimelineEvent]:
    rows = sorted(recording["timeline"]["lines"], key=lambda row: (row[0], -row[1]))
    for (start, duration, place), depth in zip(rows, _depths(rows), strict=True):
        function, line = recording["places"][place][:2]
        name, span = places.function_name(function), places.line_span(function, line)
        yield _event(lanes.number(Lane("code", "Code")), depth, clock, start, duration, name, span)


def _operators(recording: Recording, places: Places, clock: Clock, lanes: _Lanes) -> Iterator[TimelineEvent]:
    names, shapes = recording["names"], recording["shapes"]
    threads: dict[int, list[tuple[int, int, int, int, int]]] = defaultdict(list)
    for start, duration, name, place, thread, shape in recording["timeline"]["host"]:
        threads[thread].append((start, duration, name, place, shape))
    for number, rows in enumerate(sorted(threads.values(), key=min)):
        lane = lanes.number(Lane("host", "Host" if number == 0 else f"Host, thread {number + 1}"))
        rows.sort(key=lambda row: (row[0], -row[1]))
        for (start, duration, name, place, shape), depth in zip(rows, _depths(rows), strict=True):
            seen = tuple(tuple(sizes) for sizes in shapes[shape])
            yield _event(lane, depth, clock, start, duration, names[name], places.span(place), seen)


def _event(
    lane: int,
    depth: int,
    clock: Clock,
    start: int,
    duration: int,
    name: str,
    span: Span | None,
    shapes: tuple[tuple[int, ...], ...] = (),
) -> TimelineEvent:
    begin = clock(start)
    return TimelineEvent(lane, depth, begin / _MS, (clock(start + duration) - begin) / _MS, name, span, shapes)


def _depths(rows: Sequence[tuple[int, ...]]) -> Iterator[int]:
    """How many others each row runs inside of; rows begin with a start and a duration, and are in order of start."""
    ends: list[int] = []
    for start, duration, *_ in rows:
        while ends and ends[-1] <= start:
            ends.pop()
        yield len(ends)
        ends.append(start + duration)


def _kernels(recording: Recording, places: Places, clock: Clock, lanes: _Lanes) -> Iterator[TimelineEvent]:
    streams: dict[tuple[int, int], list[RawKernel]] = defaultdict(list)
    for row in sorted(recording["timeline"]["device"]):
        streams[row[4], row[5]].append(row)
    for (device, stream), rows in sorted(streams.items()):
        lane = lanes.number(Lane("device", f"GPU {device}, stream {stream}"))
        free = profiled_free = 0.0
        for start, duration, name, place, _, _, launch in rows:
            # One that found its stream busy waited for it, and for nothing else.
            delay = max(0, start - launch) if start > profiled_free else 0
            begin = max(clock(launch) + delay, free)
            free, profiled_free = begin + duration, start + duration
            yield TimelineEvent(lane, 0, begin / _MS, duration / _MS, recording["names"][name], places.span(place))


def _memory(raw: RawTimeline, places: Places, clock: Clock) -> MemoryUse | None:
    memory = raw["memory"]
    if memory is None:
        return None
    held: dict[Span | None, tuple[int, int]] = {}
    for place, size, count in memory["held"]:
        span = places.span(place)
        sizes, counts = held.get(span, (0, 0))
        held[span] = (sizes + size, counts + count)
    return MemoryUse(
        tuple(MemoryPoint(clock(at) / _MS, total, places.span(place)) for at, total, place in memory["points"]),
        clock(memory["peak_ns"]) / _MS,
        memory["peak_bytes"],
        tuple(sorted((Held(span, *sums) for span, sums in held.items()), key=lambda item: -item.total_bytes)),
    )
