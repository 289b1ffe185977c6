"""One forward in order of time: what ran when, and how much memory was held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from forwardlens.model.location import Span

LaneKind = Literal["code", "host", "device"]


@dataclass(frozen=True, slots=True)
class Lane:
    """A row of the timeline: the lines of user code, the operators of one host thread, or one stream of a device."""

    kind: LaneKind
    name: str


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """One line, operator or kernel that ran.

    `lane` is an index into the lanes and `depth` counts the events of the lane that it runs inside of. `name` is the
    function of a line, the operator or the kernel; `span` the expression, None outside user code.
    """

    lane: int
    depth: int
    start_ms: float
    duration_ms: float
    name: str
    span: Span | None
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def end_ms(self) -> float:
        return self.start_ms + self.duration_ms


@dataclass(frozen=True, slots=True)
class MemoryPoint:
    """`total_bytes` are held from `at_ms` on, beyond what the forward began with; `span` changed it."""

    at_ms: float
    total_bytes: int
    span: Span | None


@dataclass(frozen=True, slots=True)
class Held:
    """What one expression allocated in `count` pieces and was still held at the peak."""

    span: Span | None
    total_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class MemoryUse:
    points: tuple[MemoryPoint, ...]
    peak_ms: float
    peak_bytes: int
    held: tuple[Held, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """One profiled forward on the clock of the untraced ones: it ends at their median.

    Events are in order of lane and start. `profiled_ms` is how long the forward took under the profiler. The shortest
    events are left out of a long forward: `left_out` of them, which took `left_out_ms`.
    """

    lanes: tuple[Lane, ...]
    events: tuple[TimelineEvent, ...]
    memory: MemoryUse | None
    total_ms: float
    profiled_ms: float
    left_out: int = 0
    left_out_ms: float = 0.0
