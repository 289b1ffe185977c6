"""Operators by expression, each the median over the profiled iterations."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from forwardlens.attribution.recording import RawIteration, RawOp

_NAME, _PLACE, _, _DEPTH, _TOTAL, _SELF, _SHAPES, _DEVICE, _BLOCKED = range(9)
# (place, operator name)
OpKey = tuple[int, int]


@dataclass(frozen=True, slots=True)
class OpTimes:
    """One operator at one place in one forward: profiled nanoseconds, not yet calibrated.

    `signatures` are the kinds of inputs it got, in the order in which they first came, and `commonest` is the one of
    most calls, as indices into the recording's `shapes`.
    """

    calls: int
    total: float
    self: float
    device: float
    blocked: float
    signatures: tuple[int, ...]
    commonest: int
    outermost: bool


def operator_times(iterations: Sequence[RawIteration]) -> dict[OpKey, OpTimes]:
    """Sums over the calls of one forward, where each call is its median over the iterations, of two the quicker.

    One slow instance in one iteration would otherwise move a whole line. The n-th call of an operator at a place is
    the same instance in every iteration of a deterministic forward; where counts differ, the median count is used.
    """
    grouped: dict[OpKey, list[list[RawOp]]] = defaultdict(lambda: [[] for _ in iterations])
    for number, iteration in enumerate(iterations):
        for op in iteration["ops"]:
            grouped[op[_PLACE], op[_NAME]][number].append(op)
    return {key: _typical(runs) for key, runs in grouped.items()}


def _typical(runs: list[list[RawOp]]) -> OpTimes:
    calls = round(statistics.median(len(ops) for ops in runs))
    longest = max(runs, key=len)
    instances = list(zip(*runs, strict=False)) if min(map(len, runs)) >= calls else [(op,) for op in longest[:calls]]
    signatures = Counter(op[_SHAPES] for op in longest)
    return OpTimes(
        calls,
        _sum_of_medians(instances, _TOTAL),
        _sum_of_medians(instances, _SELF),
        _sum_of_medians(instances, _DEVICE),
        _sum_of_medians(instances, _BLOCKED),
        tuple(signatures),
        max(signatures, key=signatures.__getitem__),
        any(op[_DEPTH] == 0 for op in longest),
    )


def _sum_of_medians(instances: list[tuple[RawOp, ...]], column: int) -> float:
    return sum(statistics.median_low(op[column] for op in instance) for instance in instances)
