"""The timeline as the report view gets it."""

from __future__ import annotations

import json

from tests.report.timelines import with_timeline

from forwardlens.report.record import Report
from forwardlens.report.view import timeline_view


def test_events_are_columns_that_refer_to_tables(report: Report):
    report = with_timeline(report)
    assert report.profile.timeline is not None
    view = timeline_view(report.profile.timeline, report)
    events = view["events"]
    assert {len(column) for column in events.values()} == {5}
    assert events["start"] == [0, 1_000_000, 1_500_000, 7_000_000, 2_000_000]
    assert [view["names"][name] for name in events["name"]][:2] == ["Tagger.forward", "aten::embedding"]
    assert [view["spans"][span]["code"] if span >= 0 else None for span in events["span"]][1:4] == [
        "self.word(ids[:, t])", "self.word(ids[:, t])", None,
    ]  # fmt: skip
    assert view["spans"][0]["file"] == "models/tagger one.py"
    assert view["shapes"][events["shapes"][1]] == [[10, 4], [1]]
    assert (view["total_ns"], view["profiled_ns"], view["left_out"]) == (8_000_000, 16_000_000, 3)
    assert json.dumps(view, allow_nan=False)


def test_memory_says_who_holds_it(report: Report):
    report = with_timeline(report)
    assert report.profile.timeline is not None
    memory = timeline_view(report.profile.timeline, report)["memory"]
    assert (memory["at"], memory["bytes"]) == ([1_000_000, 5_000_000], [4096, 1024])
    assert [(held["bytes"], held["count"], held["span"] >= 0) for held in memory["held"]] == [
        (3072, 2, True), (1024, 1, False),
    ]  # fmt: skip
