"""A speedscope file: one forward as a flame chart, lines of code above their operators, and each device's streams.

https://www.speedscope.app/file-format-schema.json is the format's schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from forwardlens import __version__
from forwardlens.model import Span, Timeline, TimelineEvent
from forwardlens.report.formats import Format
from forwardlens.report.record import Report

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
_NS_PER_MS = 1e6

JsonObject = dict[str, Any]


def document(report: Report) -> JsonObject:
    profile, frames = report.profile, _Frames(report)
    profiles = [] if profile.timeline is None else list(_profiles(profile.timeline, frames))
    return {
        "$schema": _SCHEMA,
        "shared": {"frames": frames.all},
        "profiles": profiles,
        "name": f"{profile.target or profile.entry}, {profile.forward.wall_ms.median:.3g} ms",
        "activeProfileIndex": 0,
        "exporter": f"ForwardLens {__version__}",
    }


def render(report: Report) -> str:
    return json.dumps(document(report), separators=(",", ":"), allow_nan=False) + "\n"


class _Frames:
    """Numbers what can run, each with the place that the viewer shows for it."""

    def __init__(self, report: Report) -> None:
        self.all: list[JsonObject] = []
        self._report = report
        self._numbers: dict[tuple[str, Span | None], int] = {}

    def number(self, event: TimelineEvent, *, is_code: bool) -> int:
        key = (event.name, event.span)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.all)
            self.all.append(self._frame(event, is_code=is_code))
        return number

    def _frame(self, event: TimelineEvent, *, is_code: bool) -> JsonObject:
        span = event.span
        if span is None:
            return {"name": event.name}
        name = f"{event.name}: {self._report.code_of(span)}" if is_code else event.name
        return {"name": name, "file": self._report.name_of(span.file), "line": span.line, "col": span.column + 1}


def _profiles(timeline: Timeline, frames: _Frames) -> Iterator[JsonObject]:
    """The lines and the first host lane, whose operators run inside them, are one profile; every other lane is one."""
    lanes: dict[str, list[int]] = {}
    hosts = [number for number, lane in enumerate(timeline.lanes) if lane.kind == "host"][:1]
    for number, lane in enumerate(timeline.lanes):
        inside_code = lane.kind == "code" or number in hosts
        lanes.setdefault("Host" if inside_code else lane.name, []).append(number)
    for name, numbers in lanes.items():
        events = [event for event in timeline.events if event.lane in numbers]
        if events:
            yield _profile(name, events, timeline, frames)


def _profile(name: str, events: Iterable[TimelineEvent], timeline: Timeline, frames: _Frames) -> JsonObject:
    """Openings and closings in order of time, each closing the frame that was opened last."""
    rows: list[JsonObject] = []
    open_frames: list[tuple[int, int]] = []
    whole = now = 0

    def close(until: int) -> None:
        while open_frames and open_frames[-1][0] <= until:
            end, frame = open_frames.pop()
            rows.append({"type": "C", "frame": frame, "at": end / _NS_PER_MS})

    for event in sorted(events, key=lambda event: (event.start_ms, -event.duration_ms, event.lane, event.depth)):
        start, end = round(event.start_ms * _NS_PER_MS), round(event.end_ms * _NS_PER_MS)
        now = max(start, now)
        close(now)
        # Roundings and left-out parents must not make a frame outlive the one around it.
        end = min(max(end, now), open_frames[-1][0] if open_frames else max(end, now))
        is_code = timeline.lanes[event.lane].kind == "code"
        frame = frames.number(event, is_code=is_code)
        rows.append({"type": "O", "frame": frame, "at": now / _NS_PER_MS})
        open_frames.append((end, frame))
        whole = max(whole, end)
    close(whole)
    return {
        "type": "evented",
        "name": name,
        "unit": "milliseconds",
        "startValue": 0,
        "endValue": max(whole / _NS_PER_MS, timeline.total_ms),
        "events": rows,
    }


FORMAT = Format("speedscope flame chart", ".speedscope.json", render)
