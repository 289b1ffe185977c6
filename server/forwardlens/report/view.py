"""What the report view draws beside the JSON report: the timeline and the comparison of two runs, as JSON values.

A timeline has thousands of events, so they are sent column by column, with names and places in tables of their own.
Times are whole nanoseconds there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import asdict
from typing import Any, Generic, TypeVar

from forwardlens.model import MemoryUse, Span, Timeline
from forwardlens.report.compare import Comparison
from forwardlens.report.record import Report

JsonObject = dict[str, Any]
_NS_PER_MS = 1e6
_DECIMALS = 6
_Value = TypeVar("_Value", bound=Hashable)


def timeline_view(timeline: Timeline, report: Report) -> JsonObject:
    names, shapes = _Table[str](str), _Table[tuple[tuple[int, ...], ...]](lambda sizes: [list(size) for size in sizes])
    spans = _Table[Span](lambda span: _span(span, report))
    events = timeline.events
    columns = {
        "lane": [event.lane for event in events],
        "depth": [event.depth for event in events],
        "start": [_ns(event.start_ms) for event in events],
        # Ends are rounded, so that an event does not stick out of the one that it runs inside of.
        "duration": [_ns(event.end_ms) - _ns(event.start_ms) for event in events],
        "name": [names(event.name) for event in events],
        "span": [spans(event.span) for event in events],
        "shapes": [shapes(event.shapes) for event in events],
    }
    memory = None if timeline.memory is None else _memory(timeline.memory, spans)
    return {
        "total_ns": _ns(timeline.total_ms),
        "profiled_ns": _ns(timeline.profiled_ms),
        "left_out": timeline.left_out,
        "left_out_ns": _ns(timeline.left_out_ms),
        "lanes": [asdict(lane) for lane in timeline.lanes],
        "events": columns,
        "memory": memory,
        "names": names.all,
        "spans": spans.all,
        "shapes": shapes.all,
    }


class _Table(Generic[_Value]):
    """Numbers values in order of appearance; None is -1."""

    def __init__(self, plain: Callable[[_Value], object]) -> None:
        self.all: list[object] = []
        self._plain = plain
        self._numbers: dict[_Value, int] = {}

    def __call__(self, value: _Value | None) -> int:
        if value is None:
            return -1
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.all)
            self.all.append(self._plain(value))
        return number


def _memory(memory: MemoryUse, spans: _Table[Span]) -> JsonObject:
    return {
        "at": [_ns(point.at_ms) for point in memory.points],
        "bytes": [point.total_bytes for point in memory.points],
        "span": [spans(point.span) for point in memory.points],
        "peak_at": _ns(memory.peak_ms),
        "peak_bytes": memory.peak_bytes,
        "held": [{"span": spans(held.span), "bytes": held.total_bytes, "count": held.count} for held in memory.held],
    }


def _span(span: Span, report: Report) -> JsonObject:
    return {**asdict(span), "file": report.name_of(span.file), "code": report.code_of(span)}


def _ns(milliseconds: float) -> int:
    return round(milliseconds * _NS_PER_MS)


def comparison_view(comparison: Comparison, report: Report) -> JsonObject:
    return {
        "before_ms": asdict(comparison.before),
        "after_ms": asdict(comparison.after),
        "verdict": comparison.verdict,
        "lines": [
            {
                **asdict(change),
                "file": report.name_of(change.file),
                "before_ms": _rounded(change.before_ms),
                "after_ms": _rounded(change.after_ms),
            }
            for change in comparison.lines
        ],
        "operators": [
            {**asdict(change), "before_ms": _rounded(change.before_ms), "after_ms": _rounded(change.after_ms)}
            for change in comparison.operators
        ],
    }


def _rounded(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds, _DECIMALS)
