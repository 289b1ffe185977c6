"""A recording becomes a profile: every expression gets what it costs, and the rest is said."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forwardlens.attribution.bound import bound
from forwardlens.attribution.calibrate import LineTimes, calibrate
from forwardlens.attribution.operators import OpTimes, operator_times
from forwardlens.attribution.recording import OUTSIDE, RawIteration, Recording
from forwardlens.model import (
    Environment,
    ExpressionCost,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    RunError,
    Span,
)
from forwardlens.source.expressions import expression_at
from forwardlens.source.text import SourceText

_MS = 1e6
# The clock's own cost is measured, not guessed; if removing it misses the untraced time by more, say so.
GOOD_CORRECTION = (0.8, 1.25)
# Comprehensions and lambdas are frames of their own; people think of them as part of the function around them.
_ANONYMOUS = (".<listcomp>", ".<setcomp>", ".<dictcomp>", ".<genexpr>", ".<lambda>")


@dataclass(frozen=True, slots=True)
class _Place:
    """One expression before calibration: medians over the profiled iterations."""

    runs: int
    runs_per_entry: int
    span_ns: float
    alloc_bytes: int
    ops: dict[int, OpTimes]


def attribute(recording: Recording, entry: str) -> Profile:
    """The profile of one recording. The lines' `self_ms` and the unattributed part add up to the median."""
    wall = [value / _MS for value in recording["wall_ns"]]
    median = statistics.median(wall)
    times = calibrate(recording["clock"], median * _MS)
    places = _places(recording)
    costs = _Costs(recording, times, places, median).all()
    device_ms = sum(cost.device_ms for cost in costs)
    busy = _median(iteration["device_busy_ns"] for iteration in recording["iterations"]) / _MS
    on_device = recording["environment"]["device"].partition(":")[0] != "cpu"
    blocked = sum(cost.blocked_ms for cost in costs)
    forward = Forward(
        Quantiles(median, _quantile(wall, 0.1), _quantile(wall, 0.9), len(wall)),
        busy if on_device else None,
        blocked if on_device else None,
        recording["peak_memory_bytes"],
        bound(costs, median, busy if on_device else None, blocked),
    )
    unattributed = times.outside + (0.0 if device_ms else times.waiting)
    return Profile(
        entry,
        recording["target"],
        Environment(**recording["environment"]),
        forward,
        GradUse(**recording["grad"]),
        unattributed / _MS / median if median else 0.0,
        costs,
        recording["texts"],
        tuple(_notes(recording, times, costs)),
    )


def _places(recording: Recording) -> dict[int, _Place]:
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
        place: _Place(
            _typical(row[0] for row in seen),
            _typical(row[1] for row in seen),
            _typical(row[2] for row in seen),
            memory.get(place, 0),
            ops[place],
        )
        for place, seen in rows.items()
        if place != OUTSIDE
    }


def _memory(iterations: list[RawIteration]) -> dict[int, int]:
    """Bytes allocated at each place, the median over the iterations."""
    sums: dict[int, list[int]] = defaultdict(lambda: [0] * len(iterations))
    for number, iteration in enumerate(iterations):
        for place, size in iteration["memory"]:
            sums[place][number] += size
    return {place: _typical(values) for place, values in sums.items()}


class _Costs:
    """Splits each line's time among its expressions and builds their records."""

    def __init__(self, recording: Recording, times: LineTimes, places: Mapping[int, _Place], median_ms: float) -> None:
        self._recording, self._times, self._places, self._median = recording, times, places, median_ms
        self._sources = {path: SourceText(path, text) for path, text in recording["texts"].items()}
        self._self_ns, self._whole_lines = self._split()
        self._callees = _callee_times(recording, self._function_self())

    def all(self) -> tuple[ExpressionCost, ...]:
        costs = [self._expression(place, self_ns) for place, self_ns in self._self_ns.items()]
        costs += [self._whole_line(*key, self_ns) for key, self_ns in self._whole_lines.items()]
        return tuple(sorted((c for c in costs if c is not None), key=lambda c: (c.span, c.function)))

    def _split(self) -> tuple[dict[int, float], dict[tuple[int, int], float]]:
        """Own nanoseconds of each expression that ran operators or user functions, and of each line without one.

        The clock knows a line's time; the profiled time between marks only says how its expressions share it.
        """
        by_line: dict[tuple[int, int], list[int]] = defaultdict(list)
        calling = {place for iteration in self._recording["iterations"] for place, _, _ in iteration["calls"]}
        for place, seen in self._places.items():
            if seen.ops or place in calling:
                function, line = self._recording["places"][place][:2]
                by_line[function, line].append(place)
        expressions: dict[int, float] = {}
        for key, places in by_line.items():
            whole = sum(self._places[p].span_ns for p in places) or 1.0
            line_ns = self._times.lines.get(key, 0.0)
            expressions.update({p: line_ns * self._places[p].span_ns / whole for p in places})
        self._add_waiting(expressions)
        return expressions, {key: ns for key, ns in self._times.lines.items() if key not in by_line}

    def _add_waiting(self, expressions: dict[int, float]) -> None:
        """The wait after the last line is time the device still works: it goes to those who gave it the work."""
        device = {place: sum(op.device for op in self._places[place].ops.values()) for place in expressions}
        whole = sum(device.values())
        if whole:
            for place, share in device.items():
                expressions[place] += self._times.waiting * share / whole

    def _function_self(self) -> dict[int, float]:
        totals: dict[int, float] = defaultdict(float)
        for place, self_ns in self._self_ns.items():
            totals[self._recording["places"][place][0]] += self_ns
        for (function, _), self_ns in self._whole_lines.items():
            totals[function] += self_ns
        return totals

    def _expression(self, place: int, self_ns: float) -> ExpressionCost | None:
        function, line, column, end_line, end_column, iterates = self._recording["places"][place]
        source = self._source(function)
        if source is None:
            return None
        if column is None or end_column is None:
            span = source.line_span(line)
        else:
            start, end = source.column_from_bytes(line, column), source.column_from_bytes(end_line, end_column)
            span = expression_at(source, Span(source.path, line, start, end_line, end), iterates)
        seen = self._places[place]
        scale = self_ns / seen.span_ns if seen.span_ns else 0.0
        ops = tuple(self._op(name, op, scale) for name, op in seen.ops.items())
        self_ms = self_ns / _MS
        return ExpressionCost(
            span,
            self._name(function),
            seen.runs,
            seen.runs_per_entry,
            self_ms,
            self_ms + self._callees.get(place, 0.0) / _MS,
            self_ms / self._median,
            sum(op.device_ms for op in ops),
            sum(op.blocked for op in seen.ops.values()) / _MS,
            seen.alloc_bytes,
            tuple(sorted(ops, key=lambda op: -op.total_ms)),
        )

    def _whole_line(self, function: int, line: int, self_ns: float) -> ExpressionCost | None:
        """A line that ran no operator: plain Python."""
        source = self._source(function)
        if source is None:
            return None
        on_line = [seen for place, seen in self._places.items() if self._is_on(place, function, line)]
        self_ms = self_ns / _MS
        return ExpressionCost(
            source.line_span(line),
            self._name(function),
            max((seen.runs for seen in on_line), default=0),
            max((seen.runs_per_entry for seen in on_line), default=0),
            self_ms,
            self_ms,
            self_ms / self._median,
            0.0,
            0.0,
            sum(seen.alloc_bytes for seen in on_line),
        )

    def _is_on(self, place: int, function: int, line: int) -> bool:
        return self._recording["places"][place][0] == function and self._recording["places"][place][1] == line

    def _op(self, name: int, op: OpTimes, scale: float) -> OpCost:
        return OpCost(
            self._recording["names"][name],
            op.calls,
            op.self * scale / _MS,
            op.total * scale / _MS,
            op.device / _MS,
            0,
            tuple(tuple(shape) for shape in self._recording["shapes"][op.shapes]),
            op.shape_variants,
            op.outermost,
        )

    def _source(self, function: int) -> SourceText | None:
        return self._sources.get(self._recording["functions"][function][0])

    def _name(self, function: int) -> str:
        name = self._recording["functions"][function][1]
        while name.endswith(_ANONYMOUS):
            name = name.rpartition(".<")[0]
        return name


def _callee_times(recording: Recording, function_self: Mapping[int, float]) -> dict[int, float]:
    """Calibrated time of the user functions that each place calls.

    A function's own time is known from its lines; it is shared among its callers as the profiled time was.
    """
    raw: dict[tuple[int, int], float] = defaultdict(float)
    for iteration in recording["iterations"]:
        for place, function, span in iteration["calls"]:
            raw[place, function] += span
    entered: dict[int, float] = defaultdict(float)
    for (_, function), span in raw.items():
        entered[function] += span
    called_in: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, function in raw:
        if place != OUTSIDE:
            called_in[recording["places"][place][0]].append((place, function))
    inclusive: dict[int, float] = {}

    def whole(function: int, above: frozenset[int]) -> float:
        if function in above:
            return 0.0  # recursion: the outer call already counts it
        if function not in inclusive:
            inside = above | {function}
            inclusive[function] = function_self.get(function, 0.0) + sum(
                _part(raw, entered, place, callee) * whole(callee, inside) for place, callee in called_in[function]
            )
        return inclusive[function]

    totals: dict[int, float] = defaultdict(float)
    for place, function in raw:
        if place != OUTSIDE:
            caller = recording["places"][place][0]
            totals[place] += _part(raw, entered, place, function) * whole(function, frozenset({caller}))
    return totals


def _part(raw: Mapping[tuple[int, int], float], entered: Mapping[int, float], place: int, function: int) -> float:
    return raw[place, function] / entered[function] if entered[function] else 0.0


def _notes(recording: Recording, times: LineTimes, costs: tuple[ExpressionCost, ...]) -> Iterable[RunError]:
    if recording["truncated"]:
        yield RunError(
            "truncated", "the forward runs more operators than one profile holds; what came after is not broken down"
        )
    if not costs:
        yield RunError(
            "no-user-code",
            f"{recording['described']} runs no code of this workspace; name its package with --include",
        )
    low, high = GOOD_CORRECTION
    if costs and not low <= times.correction <= high:
        yield RunError(
            "calibration",
            f"the line clock and the untraced time disagree by {abs(times.correction - 1):.0%}; "
            "the machine may have been busy, so take the shares as rough",
        )


def _typical(values: Iterable[int]) -> int:
    return round(statistics.median(values))


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _quantile(values: list[float], q: float) -> float:
    """Linear interpolation between order statistics, as numpy's default."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
