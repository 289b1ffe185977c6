"""A small timeline for a report: a line that runs an operator that runs another, and a kernel it launched."""

from __future__ import annotations

from dataclasses import replace

from forwardlens.model import Held, Lane, MemoryPoint, MemoryUse, Timeline, TimelineEvent
from forwardlens.report.record import Report


def with_timeline(report: Report) -> Report:
    span = report.profile.lines[0].span
    line = report.sources[span.file].line_span(span.line)
    timeline = Timeline(
        (Lane("code", "Code"), Lane("host", "Host"), Lane("device", "GPU 0, stream 7")),
        (
            TimelineEvent(0, 0, 0.0, 6.0, "Tagger.forward", line),
            TimelineEvent(1, 0, 1.0, 3.0, "aten::embedding", span, ((10, 4), (1,))),
            TimelineEvent(1, 1, 1.5, 2.5, "aten::index_select", span),
            TimelineEvent(1, 0, 7.0, 0.5, "aten::add", None),
            TimelineEvent(2, 0, 2.0, 4.0, "gather_kernel", span),
        ),
        MemoryUse(
            (MemoryPoint(1.0, 4096, span), MemoryPoint(5.0, 1024, None)),
            1.0,
            4096,
            (Held(span, 3072, 2), Held(None, 1024, 1)),
        ),
        total_ms=8.0,
        profiled_ms=16.0,
        left_out=3,
        left_out_ms=0.01,
    )
    return replace(report, profile=replace(report.profile, timeline=timeline))
