"""From clock readings to what each line costs when nobody is looking."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from forwardlens.attribution.recording import OUTSIDE, WAITING, RawClock, RawClockRow

LineKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class LineTimes:
    """Nanoseconds per forward that add up to the untraced median: by (function, line), outside user code, and waiting
    for the device after the last line.

    `correction` is the factor that made them add up; 1.0 means that subtracting the clock's own cost sufficed.
    """

    lines: dict[LineKey, float]
    outside: float
    waiting: float
    correction: float


def calibrate(clock: RawClock, median_ns: float) -> LineTimes:
    """Median of each line over the clocked runs, less the clock's own cost, scaled to the untraced median."""
    readings: dict[LineKey, list[float]] = defaultdict(list)
    for iteration in clock["iterations"]:
        for key, value in _net(iteration, clock):
            readings[key].append(value)
    runs = len(clock["iterations"])
    times = {key: statistics.median(values + [0.0] * (runs - len(values))) for key, values in readings.items()}
    total = sum(times.values())
    scale = median_ns / total if total else 0.0
    outside = times.pop((OUTSIDE, 0), 0.0)
    waiting = times.pop((WAITING, 0), 0.0)
    lines = {key: value * scale for key, value in times.items()}
    return LineTimes(lines, outside * scale, waiting * scale, scale)


def _net(rows: Iterable[RawClockRow], clock: RawClock) -> Iterable[tuple[LineKey, float]]:
    for function, line, events, self_ns, foreign in rows:
        yield (function, line), max(0.0, self_ns - events / 2 * clock["line_ns"] - foreign * clock["call_ns"])
