"""Sharing each line's time among its expressions.

The clock knows what a line costs; the profiled time between marks only says how its expressions share it.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from forwardlens.attribution.calibrate import LineKey, LineTimes
from forwardlens.attribution.operators import OpTimes, operator_times
from forwardlens.attribution.recording import OUTSIDE, RawIteration, Recording

# How a worker ends the names of operators that ran in a backward.
BACKWARD = "(backward)"
_Key = TypeVar("_Key")
# (place that ran, place whose backward it ran)
Moved = Mapping[tuple[int, int], float]


@dataclass(frozen=True, slots=True)
class Place:
    """One expression before calibration: medians over the profiled iterations."""

    runs: int
    runs_per_entry: int
    span_ns: float
    alloc_bytes: int
    ops: Mapping[int, OpTimes]


@dataclass(frozen=True, slots=True)
class Share:
    """Calibrated nanoseconds of one expression, and how calibrated ones relate to profiled ones, each way."""

    forward: float
    backward: float
    forward_scale: float
    backward_scale: float

    @property
    def total(self) -> float:
        return self.forward + self.backward


@dataclass(frozen=True, slots=True)
class Split:
    """`expressions` by place, `lines` on which no expression ran an operator, and what belongs to neither."""

    expressions: Mapping[int, Share]
    lines: Mapping[LineKey, float]
    unattributed: float


def read_places(recording: Recording) -> dict[int, Place]:
    """Every place of the recording, the one outside user code too."""
    iterations = recording["iterations"]
    ops: dict[int, dict[int, OpTimes]] = defaultdict(dict)
    for (place, name), op in operator_times(iterations).items():
        ops[place][name] = op
    memory = _memory(iterations)
    rows: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for iteration in iterations:
        for place, runs, most, span in iteration["places"]:
            rows[place].append((runs, most, span))
    return {
        place: Place(
            _typical(row[0] for row in seen),
            _typical(row[1] for row in seen),
            _typical(row[2] for row in seen),
            memory.get(place, 0),
            ops[place],
        )
        for place, seen in rows.items()
    }


def split(recording: Recording, times: LineTimes, places: Mapping[int, Place]) -> Split:
    """Calibrated time of every expression; all of it and the unattributed rest add up to the untraced median."""
    own, lines = _by_expression(recording, times, places)
    own[OUTSIDE] = times.outside
    backward, backward_scale = _move_backward(own, places, _moved(recording["iterations"]))
    outside = own.pop(OUTSIDE)
    waiting = _shared(times.waiting, _device_times(recording, {place: places[place] for place in own}))
    expressions = {
        place: Share(
            forward + waiting.get((place, False), 0.0),
            backward[place] + waiting.get((place, True), 0.0),
            forward / places[place].span_ns if places[place].span_ns else 0.0,
            backward_scale[place],
        )
        for place, forward in own.items()
    }
    return Split(expressions, lines, outside if waiting else outside + times.waiting)


def _move_backward(
    own: dict[int, float], places: Mapping[int, Place], moved: Moved
) -> tuple[Mapping[int, float], Mapping[int, float]]:
    """Take backward time from the places that ran it, in `own`; what each forward gets, and how its profiled backward
    time relates to that.
    """
    rates = {place: own[place] / places[place].span_ns for place in own if place in places and places[place].span_ns}
    backward: dict[int, float] = defaultdict(float)
    raw: dict[int, float] = defaultdict(float)
    for (running, place), span in moved.items():
        if place in own and running in rates:
            taken = min(span * rates[running], own[running])
            own[running] -= taken
            backward[place] += taken
            raw[place] += span
    scale: dict[int, float] = defaultdict(float)
    scale.update({place: backward[place] / raw[place] for place in raw if raw[place]})
    return backward, scale


def _device_times(recording: Recording, places: Mapping[int, Place]) -> dict[tuple[int, bool], float]:
    """Device time by place, forward and backward apart. The wait after the last line is shared in proportion to it."""
    names = recording["names"]
    times: dict[tuple[int, bool], float] = defaultdict(float)
    for place, seen in places.items():
        for name, op in seen.ops.items():
            times[place, names[name].endswith(BACKWARD)] += op.device
    return times


def _by_expression(
    recording: Recording, times: LineTimes, places: Mapping[int, Place]
) -> tuple[dict[int, float], dict[LineKey, float]]:
    """Own time of each expression that ran operators or user functions, and of each line without one."""
    by_line: dict[LineKey, list[int]] = defaultdict(list)
    calling = {place for iteration in recording["iterations"] for place, _, _ in iteration["calls"]}
    for place, seen in places.items():
        if place != OUTSIDE and (seen.ops or place in calling):
            function, line = recording["places"][place][:2]
            by_line[function, line].append(place)
    expressions: dict[int, float] = {}
    for key, on_line in by_line.items():
        expressions.update(_shared(times.lines.get(key, 0.0), {p: places[p].span_ns for p in on_line}))
    return expressions, {key: ns for key, ns in times.lines.items() if key not in by_line}


def _shared(amount: float, weights: Mapping[_Key, float]) -> dict[_Key, float]:
    """`amount` in proportion to `weights`; nothing where all are zero and there is nobody to give it to."""
    whole = sum(weights.values())
    return {key: amount * weight / whole for key, weight in weights.items()} if whole else {}


def _moved(iterations: Sequence[RawIteration]) -> Moved:
    """Profiled time that one place ran for the backward of another, the median over the iterations."""
    seen: dict[tuple[int, int], list[int]] = defaultdict(list)
    for iteration in iterations:
        for running, place, span in iteration["backward"]:
            if running != place:
                seen[running, place].append(span)
    return {pair: _typical(spans) for pair, spans in seen.items()}


def _memory(iterations: Sequence[RawIteration]) -> dict[int, int]:
    """Bytes allocated at each place, the median over the iterations."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0] * len(iterations))
    for number, iteration in enumerate(iterations):
        for place, size in iteration["memory"]:
            sums[place][number] += size
    return {place: _typical(values) for place, values in sums.items()}


def _typical(values: Iterable[int]) -> int:
    """Of two the smaller: what comes between only ever adds."""
    return statistics.median_low(values)
