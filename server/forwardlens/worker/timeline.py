# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""One profiled forward in order of time: which line ran, which operators, which kernels, and how much memory was held.

The server's `attribution/recording.py` says what each column means. Times count from the forward's first mark.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from .locate import OUTSIDE, Locator

# What a view can draw and a reader can see. The longest events are kept: they hold the shorter ones.
MOST_EVENTS = 20_000
MOST_POINTS = 2_000


def timeline(locator: Locator, times: list[int], host: list[tuple], device: list[tuple]) -> dict:
    """`host` and `device` rows begin with an absolute start and end; those of the device end with their launch."""
    origin = times[0]
    device = [(*row[:-1], row[-1] - origin) for row in device]
    kinds: dict[str, list] = {"lines": _lines(locator, times), "host": host, "device": device}
    kept: dict[str, list] = {}
    left_out: dict[str, list[int]] = {}
    for (kind, rows), room in zip(kinds.items(), _rooms(list(map(len, kinds.values()))), strict=True):
        longest = rows
        if len(rows) > room:
            longest = heapq.nlargest(room, rows, key=_duration)
            left_out[kind] = [len(rows) - len(longest), sum(map(_duration, rows)) - sum(map(_duration, longest))]
        kept[kind] = sorted([row[0] - origin, row[1] - row[0], *row[2:]] for row in longest)
    return {"span_ns": times[-1] - origin, **kept, "left_out": left_out}


def _duration(row) -> int:
    return row[1] - row[0]


def _rooms(sizes: list[int]) -> list[int]:
    """How many of each kind are kept: an even share of the room, and what the smaller kinds leave of theirs."""
    rooms, free = [0] * len(sizes), MOST_EVENTS
    by_size = sorted(range(len(sizes)), key=lambda kind: sizes[kind])
    for position, kind in enumerate(by_size):
        rooms[kind] = min(sizes[kind], free // (len(sizes) - position))
        free -= rooms[kind]
    return rooms


def _lines(locator: Locator, times: list[int]) -> list[list[int]]:
    """Rows `[start, end, place]`: a line from its first mark to the first one of another line of the same call,
    with the calls that it makes in between.
    """
    rows: list[list[int]] = []
    open_lines: list[tuple[int, tuple[int, int], list[int]]] = []

    def close(until: int) -> None:
        open_lines.pop()[2][1] = until

    for (place, entry, _), time in zip(locator.marks, times, strict=True):
        # Calls are numbered in order, so what is open with a higher number was called later and has ended.
        while open_lines and open_lines[-1][0] > entry:
            close(time)
        if place == OUTSIDE:
            continue
        line = locator.line(place)
        if open_lines and open_lines[-1][0] == entry:
            if open_lines[-1][1] == line:
                continue
            close(time)
        rows.append([time, 0, place])
        open_lines.append((entry, line, rows[-1]))
    while open_lines:
        close(times[-1])
    return rows


def memory(kineto_results, marks: list[tuple[int, int, int]], times: list[int]) -> dict | None:
    """Bytes held beyond what the forward began with, over time, and who allocated what was held at the peak.

    The device's memory if the forward allocated any, else the host's.
    """
    events = _allocations(kineto_results, marks, times)
    total = peak = peak_index = 0
    points = []
    for index, (time, place, size, _) in enumerate(events):
        total += size
        points.append([time - times[0], total, place])
        if total > peak:
            peak, peak_index = total, index
    if peak == 0:
        return None
    held: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for place, size in _live(events[: peak_index + 1]):
        held[place][0] += size
        held[place][1] += 1
    return {
        "points": _thinned(points),
        "peak_ns": points[peak_index][0],
        "peak_bytes": peak,
        "held": [[place, size, count] for place, (size, count) in held.items()],
    }


def _live(events: list[tuple[int, int, int, int]]) -> Iterable[tuple[int, int]]:
    """`(place, bytes)` of what was allocated and not freed again. Freeing has negative bytes."""
    live: dict[int, tuple[int, int]] = {}
    for _, place, size, address in events:
        if size > 0:
            live[address] = (place, size)
        else:
            live.pop(address, None)
    return live.values()


def _thinned(points: list[list[int]]) -> list[list[int]]:
    """At most `MOST_POINTS`, with the lowest and the highest of each stretch, so that no peak is lost."""
    stretch = -(-len(points) // (MOST_POINTS // 2))
    if stretch <= 2:
        return points
    kept: list[list[int]] = []
    for start in range(0, len(points), stretch):
        part = points[start : start + stretch]
        kept += sorted((min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])))
    return kept


def _allocations(kineto_results, marks: list[tuple[int, int, int]], times: list[int]) -> list[tuple]:
    """Rows `(time, place, bytes, address)` in order of time."""
    on_host, on_device = [], []
    for event in _memory_events(kineto_results.experimental_event_tree()):
        mark = bisect_right(times, event.start_time_ns) - 1
        if mark >= 0:
            fields = event.extra_fields
            rows = on_host if fields.device.type == "cpu" else on_device
            rows.append((event.start_time_ns, marks[mark][0], fields.alloc_size, fields.ptr))
    return sorted(on_device or on_host, key=lambda row: row[0])


def _memory_events(roots: Iterable):
    """Only the tree knows addresses; the flat list of events has sizes alone."""
    waiting = list(roots)
    while waiting:
        event = waiting.pop()
        if event.name == "[memory]":
            yield event
        else:
            waiting += event.children
