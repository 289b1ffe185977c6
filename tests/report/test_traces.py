"""One forward as a Chrome trace and as a speedscope file."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from tests.report.timelines import with_timeline

from forwardlens.attribution.attribute import attribute
from forwardlens.attribution.recording import Recording
from forwardlens.report.formats import chrome, speedscope
from forwardlens.report.record import Report
from forwardlens.source.text import SourceText

ROOT = Path(__file__).resolve().parents[2]
SPEEDSCOPE_SCHEMA = ROOT / "node_modules" / "speedscope" / "dist" / "release" / "file-format-schema.json"


@pytest.fixture(scope="module")
def h200_report(h200: Recording) -> Report:
    """A real forward on a GPU, with thousands of events."""
    profile = attribute(h200, "slow_bert.py:build")
    sources = {path: SourceText(path, text) for path, text in profile.texts.items()}
    return Report(Path("/models"), profile, (), sources)


def complete(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [event for event in document["traceEvents"] if event["ph"] == "X"]


def test_a_chrome_trace_names_its_lanes_and_has_every_event(report: Report):
    document = json.loads(chrome.render(with_timeline(report)))
    names = [(e["pid"], e["args"]["name"]) for e in document["traceEvents"] if e["name"] == "thread_name"]
    assert names == [(1, "Code"), (1, "Host"), (2, "GPU 0, stream 7")]
    line, embedding, select, add, kernel = complete(document)
    assert (line["name"], line["ts"], line["dur"]) == (
        "rows.append(self.word(ids[:, t]))  # one by one \U0001f525",
        0.0,
        6000.0,
    )
    assert embedding["args"] == {
        "place": "models/tagger one.py:18",
        "code": "self.word(ids[:, t])",
        "shapes": [[10, 4], [1]],
    }
    assert (select["tid"], add["args"], kernel["pid"], kernel["cat"]) == (1, {}, 2, "kernel")
    memory = [(e["ts"], e["args"]["bytes"]) for e in document["traceEvents"] if e["ph"] == "C"]
    assert memory == [(1000.0, 4096), (5000.0, 1024)]
    assert (document["otherData"]["median_ms"], document["otherData"]["events_left_out"]) == (8.0, 3)


def test_events_of_a_chrome_trace_are_nested_to_the_nanosecond(h200_report: Report):
    """Perfetto drops an event that sticks out of the one that it starts inside of."""
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in complete(chrome.document(h200_report)):
        start = round(event["ts"] * 1000)
        lanes[event["pid"], event["tid"]].append((start, start + round(event["dur"] * 1000)))
    assert sum(map(len, lanes.values())) > 10_000
    for events in lanes.values():
        open_ends: list[int] = []
        for start, end in sorted(events, key=lambda event: (event[0], -event[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1]
            open_ends.append(end)


def test_a_speedscope_file_opens_and_closes_every_frame(report: Report):
    document = json.loads(speedscope.render(with_timeline(report)))
    host, device = document["profiles"]
    frames = [frame["name"] for frame in document["shared"]["frames"]]
    assert (host["name"], device["name"]) == ("Host", "GPU 0, stream 7")
    assert [(event["type"], frames[event["frame"]].partition(":")[0], event["at"]) for event in host["events"]] == [
        ("O", "Tagger.forward", 0.0),
        ("O", "aten", 1.0),
        ("O", "aten", 1.5),
        ("C", "aten", 4.0),
        ("C", "aten", 4.0),
        ("C", "Tagger.forward", 6.0),
        ("O", "aten", 7.0),
        ("C", "aten", 7.5),
    ]
    assert document["shared"]["frames"][1] == {
        "name": "aten::embedding", "file": "models/tagger one.py", "line": 18, "col": 25,
    }  # fmt: skip


def test_a_speedscope_file_of_a_real_run_is_balanced(h200_report: Report):
    document = speedscope.document(h200_report)
    assert len(document["profiles"]) == 2
    for profile in document["profiles"]:
        stack: list[int] = []
        now = profile["startValue"]
        for event in profile["events"]:
            assert now <= event["at"] <= profile["endValue"]
            now = event["at"]
            if event["type"] == "O":
                stack.append(event["frame"])
            else:
                assert stack.pop() == event["frame"]
        assert stack == []
        assert len(profile["events"]) > 1000


@pytest.mark.skipif(
    not SPEEDSCOPE_SCHEMA.is_file(), reason="the Node packages are not installed: python scripts/node.py npm ci"
)
def test_a_speedscope_file_follows_the_schema_of_speedscope(h200_report: Report, report: Report):
    schema = json.loads(SPEEDSCOPE_SCHEMA.read_text(encoding="utf-8"))
    validator = cast("Any", jsonschema.Draft7Validator(schema))
    for document in (speedscope.document(h200_report), json.loads(speedscope.render(with_timeline(report)))):
        validator.validate(document)


@pytest.mark.parametrize("render", [chrome.render, speedscope.render])
def test_a_trace_is_ascii_so_that_any_pipe_carries_it(render: Any, report: Report):
    assert render(with_timeline(report)).isascii()
    assert json.loads(render(report))
