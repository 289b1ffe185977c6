"""A Chrome trace: opens in Perfetto and in chrome://tracing. One forward, on the clock of the untraced ones.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU is the format's description.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from forwardlens.model import Lane, Timeline, TimelineEvent
from forwardlens.report.formats import Format
from forwardlens.report.record import Report

_HOST, _DEVICE = 1, 2
_NS_PER_MS, _NS_PER_US = 1e6, 1e3
_CATEGORIES = {"code": "python", "host": "cpu_op", "device": "kernel"}

JsonObject = dict[str, Any]


def document(report: Report) -> JsonObject:
    timeline = report.profile.timeline
    events = [] if timeline is None else list(_events(timeline, report))
    return {"displayTimeUnit": "ms", "otherData": _about(report), "traceEvents": events}


def render(report: Report) -> str:
    return json.dumps(document(report), separators=(",", ":"), allow_nan=False) + "\n"


def _about(report: Report) -> JsonObject:
    profile = report.profile
    timeline = profile.timeline
    environment = profile.environment
    return {
        "entry": profile.entry,
        "torch": environment.torch,
        "device": environment.device_name,
        "median_ms": round(profile.forward.wall_ms.median, 6),
        "profiled_ms": None if timeline is None else round(timeline.profiled_ms, 6),
        "events_left_out": 0 if timeline is None else timeline.left_out,
    }


def _events(timeline: Timeline, report: Report) -> Iterator[JsonObject]:
    yield _name("process_name", _HOST, 0, f"Host: {report.profile.target or report.profile.entry}")
    if any(lane.kind == "device" for lane in timeline.lanes):
        yield _name("process_name", _DEVICE, 0, f"Device: {report.profile.environment.device_name}")
    for number, lane in enumerate(timeline.lanes):
        yield _name("thread_name", _process(lane), number, lane.name)
    for event in timeline.events:
        yield _complete(event, timeline.lanes[event.lane], report)
    for point in timeline.memory.points if timeline.memory else ():
        at = round(point.at_ms * _NS_PER_MS) / _NS_PER_US
        yield {"ph": "C", "name": "Memory", "pid": _HOST, "ts": at, "args": {"bytes": point.total_bytes}}


def _process(lane: Lane) -> int:
    return _DEVICE if lane.kind == "device" else _HOST


def _name(kind: str, process: int, thread: int, name: str) -> JsonObject:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _complete(event: TimelineEvent, lane: Lane, report: Report) -> JsonObject:
    # Both ends are rounded, not the length: an event must not stick out of the one that it runs inside of.
    start, end = round(event.start_ms * _NS_PER_MS), round(event.end_ms * _NS_PER_MS)
    code = report.code_of(event.span) if lane.kind == "code" and event.span is not None else None
    return {
        "ph": "X",
        "name": code or event.name,
        "cat": _CATEGORIES[lane.kind],
        "pid": _process(lane),
        "tid": event.lane,
        "ts": start / _NS_PER_US,
        "dur": (end - start) / _NS_PER_US,
        "args": _arguments(event, lane, report),
    }


def _arguments(event: TimelineEvent, lane: Lane, report: Report) -> JsonObject:
    arguments: JsonObject = {}
    span = event.span
    if span is not None:
        arguments["place"] = f"{report.name_of(span.file)}:{span.line}"
        arguments |= {"function": event.name} if lane.kind == "code" else {"code": report.code_of(span)}
    if event.shapes:
        arguments["shapes"] = [list(shape) for shape in event.shapes]
    return arguments


FORMAT = Format("Chrome trace, for Perfetto", ".trace.json", render)
