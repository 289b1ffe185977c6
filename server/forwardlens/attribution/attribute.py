"""A recording becomes a profile: every expression gets what it costs, and the rest is said."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping

from forwardlens.attribution.bound import bound
from forwardlens.attribution.calibrate import LineTimes, calibrate
from forwardlens.attribution.graphs import graph_notes, graphs_of
from forwardlens.attribution.operators import OpTimes
from forwardlens.attribution.places import Places
from forwardlens.attribution.recording import OUTSIDE, Recording
from forwardlens.attribution.split import BACKWARD, Place, Share, Split, read_places, split
from forwardlens.attribution.timeline import timeline
from forwardlens.model import (
    Environment,
    ExpressionCost,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    RunError,
)

_MS = 1e6
# The clock's own cost is measured, not guessed; if removing it misses the untraced time by more, say so.
GOOD_CORRECTION = (0.8, 1.25)
# Of an operator whose shapes change with every call, so many are kept.
MOST_VARIANTS = 8
# The kind of note that a run carries whose forward cannot be repeated.
IN_PLACE = "in-place"


def attribute(recording: Recording, entry: str) -> Profile:
    """The profile of one recording. The lines' `self_ms` and the unattributed part add up to the median."""
    wall = [value / _MS for value in recording["wall_ns"]]
    median = statistics.median(wall)
    times = calibrate(recording["clock"], median * _MS)
    seen, where = read_places(recording), Places(recording)
    shares = split(recording, times, seen)
    costs = _Costs(recording, shares, seen, where, median).all()
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
    return Profile(
        entry,
        recording["target"],
        Environment(**recording["environment"]),
        forward,
        GradUse(**recording["grad"]),
        shares.unattributed / _MS / median if median else 0.0,
        costs,
        recording["texts"],
        (*_notes(recording, times, costs), *graph_notes(recording)),
        timeline(recording, times, where, median * _MS),
        graphs_of(recording, where),
        tuple(_outermost(recording, where)),
    )


class _Costs:
    """Splits each line's time among its expressions and builds their records."""

    def __init__(
        self, recording: Recording, split: Split, places: Mapping[int, Place], where: Places, median_ms: float
    ) -> None:
        self._recording, self._split, self._places, self._median = recording, split, places, median_ms
        self._where = where
        self._shapes = [tuple(map(tuple, call)) for call in recording["shapes"]]
        self._callees = _callee_times(recording, self._function_self())

    def all(self) -> tuple[ExpressionCost, ...]:
        costs = [self._expression(place, share) for place, share in self._split.expressions.items()]
        costs += [self._whole_line(*key, self_ns) for key, self_ns in self._split.lines.items()]
        return tuple(sorted((c for c in costs if c is not None), key=lambda c: (c.span, c.function)))

    def _function_self(self) -> dict[int, float]:
        totals: dict[int, float] = defaultdict(float)
        for place, share in self._split.expressions.items():
            totals[self._recording["places"][place][0]] += share.total
        for (function, _), self_ns in self._split.lines.items():
            totals[function] += self_ns
        return totals

    def _expression(self, place: int, share: Share) -> ExpressionCost | None:
        span = self._where.span(place)
        if span is None:
            return None
        seen = self._places[place]
        ops = tuple(self._op(n, op, share, position) for position, (n, op) in enumerate(seen.ops.items()))
        self_ms = share.total / _MS
        return ExpressionCost(
            span,
            self._where.function_name(self._recording["places"][place][0]),
            seen.runs,
            seen.runs_per_entry,
            self_ms,
            self_ms + self._callees.get(place, 0.0) / _MS,
            self_ms / self._median,
            sum(op.device_ms for op in ops),
            sum(op.blocked for op in seen.ops.values()) / _MS,
            seen.alloc_bytes,
            tuple(sorted(ops, key=lambda op: -op.total_ms)),
            share.backward / _MS,
        )

    def _whole_line(self, function: int, line: int, self_ns: float) -> ExpressionCost | None:
        """A line that ran no operator: plain Python."""
        span = self._where.line_span(function, line)
        if span is None:
            return None
        on_line = [seen for place, seen in self._places.items() if self._is_on(place, function, line)]
        self_ms = self_ns / _MS
        return ExpressionCost(
            span,
            self._where.function_name(function),
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
        return place != OUTSIDE and tuple(self._recording["places"][place][:2]) == (function, line)

    def _op(self, name: int, op: OpTimes, share: Share, position: int) -> OpCost:
        label, dtypes = self._recording["names"][name], self._recording.get("dtypes")
        seen = tuple(dict.fromkeys(self._shapes[signature] for signature in op.signatures))
        scale = share.backward_scale if label.endswith(BACKWARD) else share.forward_scale
        return OpCost(
            label,
            op.calls,
            op.self * scale / _MS,
            op.total * scale / _MS,
            op.device / _MS,
            0,
            self._shapes[op.commonest],
            len(seen),
            op.outermost,
            tuple(dtypes[op.commonest]) if dtypes else (),
            seen[:MOST_VARIANTS],
            position,
        )


def _outermost(recording: Recording, where: Places) -> Iterable[tuple[str, str]]:
    """Every function once, from outside in, by the one that is called for longest."""
    spans: dict[tuple[int, int], float] = defaultdict(float)
    for iteration in recording["iterations"]:
        for place, function, span in iteration["calls"]:
            caller = OUTSIDE if place == OUTSIDE else recording["places"][place][0]
            spans[caller, function] += span
    caller, met = OUTSIDE, set[int]()
    while called := {f: span for (around, f), span in spans.items() if around == caller and f not in met}:
        caller = max(called, key=called.__getitem__)
        met.add(caller)
        yield recording["functions"][caller][0], where.function_name(caller)


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
    nested = _calls_itself(called_in)
    outside = sum(span for (place, _), span in raw.items() if place == OUTSIDE)
    rate = sum(function_self.values()) / outside if outside else 0.0
    inclusive: dict[int, float] = {}

    def called(place: int, function: int) -> float:
        # What runs inside itself, as one decorator's wrapper does around nested forwards, has no time of its own to
        # share out: that of the inner calls is part of the outer ones'. Then the profiled times stand for all calls, so
        # that an outer one stays above those inside it.
        if nested:
            return rate * raw[place, function]
        return _part(raw, entered, place, function) * whole(function)

    def whole(function: int) -> float:
        if function not in inclusive:
            inside = sum(called(place, callee) for place, callee in called_in[function])
            inclusive[function] = function_self.get(function, 0.0) + inside
        return inclusive[function]

    totals: dict[int, float] = defaultdict(float)
    for place, function in raw:
        if place != OUTSIDE:
            totals[place] += called(place, function)
    # A place that runs inside itself is counted with each of its runs: the whole forward at most.
    return {place: min(total, rate * outside) if nested else total for place, total in totals.items()}


def _calls_itself(called_in: Mapping[int, list[tuple[int, int]]]) -> bool:
    """Whether any function runs again inside itself."""
    below = {function: {callee for _, callee in calls} for function, calls in called_in.items()}
    while not any(function in callees for function, callees in below.items()):
        grown = {f: callees.union(*(below.get(c, set[int]()) for c in callees)) for f, callees in below.items()}
        if grown == below:
            return False
        below = grown
    return True


def _part(raw: Mapping[tuple[int, int], float], entered: Mapping[int, float], place: int, function: int) -> float:
    return raw[place, function] / entered[function] if entered[function] else 0.0


def _notes(recording: Recording, times: LineTimes, costs: tuple[ExpressionCost, ...]) -> Iterable[RunError]:
    if recording["stopped"]:
        seconds = recording["wall_ns"][0] / 1e9
        yield RunError(
            "stopped",
            f"the forward did not end within the time limit; the costs are those of its first {seconds:.0f} s "
            "(--time-limit gives it longer)",
        )
    elif recording["truncated"]:
        yield RunError(
            "truncated", "the forward runs more operators than one profile holds; what came after is not broken down"
        )
    for note in recording.get("notes", ()):
        yield RunError("observer", note["message"], note["file"], note["line"])
    if reason := recording.get("in_place"):
        yield RunError(
            IN_PLACE,
            f"{recording['described']} cannot be repeated: {reason}; so the program's own calls were measured, once "
            "each, and no fix can be tried",
        )
    elif not _is_deterministic(recording):
        yield RunError(
            "not-deterministic",
            "the forward ran other operators from one run to the next; counts and costs are medians over the runs",
        )
    device = recording["environment"]["device"]
    if not device.startswith(("cpu", "cuda", "xpu")):
        yield RunError("device", f"torch's profiler records no device times on {device}; costs are host times only")
    if not costs:
        graphs = recording.get("graphs")
        why = (
            "ran as compiled code, which has no lines; profile it without the compiler to see them"
            if graphs is not None and not graphs["asked"]
            else "runs no code of this workspace; name its package with --include"
        )
        yield RunError("no-user-code", f"{recording['described']} {why}")
    low, high = GOOD_CORRECTION
    if costs and not recording["stopped"] and not low <= times.correction <= high:
        yield RunError(
            "calibration",
            f"the line clock and the untraced time disagree by {abs(times.correction - 1):.0%}; "
            "the machine may have been busy, so take the shares as rough",
        )


def _is_deterministic(recording: Recording) -> bool:
    """Whether every profiled iteration ran the same operators at the same places in the same order.

    Only names with a namespace are operators; what the device's runtime does beside them varies.
    """
    operators = {index for index, name in enumerate(recording["names"]) if "::" in name}
    runs = [[(op[1], op[0]) for op in iteration["ops"] if op[0] in operators] for iteration in recording["iterations"]]
    return all(run == runs[0] for run in runs)


def _median(values: Iterable[float]) -> float:
    return statistics.median(values)


def _quantile(values: list[float], q: float) -> float:
    """Linear interpolation between order statistics, as numpy's default."""
    ordered = sorted(values)
    position = q * (len(ordered) - 1)
    low = int(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)
