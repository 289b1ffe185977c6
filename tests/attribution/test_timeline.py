"""A recorded forward in order of time, told on the clock of the untraced one."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from tests.attribution.test_attribute import ADD, CALL, MS, MUL, SIN, iteration, recording

from forwardlens.attribution.attribute import attribute
from forwardlens.attribution.recording import OUTSIDE, WAITING, Recording
from forwardlens.model import Lane, Profile, Timeline

# Line 2 (its two operators) runs from 100 to 500, line 3 from 500 to 950 and calls line 8 from 550 to 950.
RAW: dict[str, Any] = {
    "span_ns": 1000,
    "lines": [[100, 400, MUL], [500, 450, CALL], [550, 400, SIN]],
    "host": [[120, 200, 1, MUL, 7, 0], [150, 50, 2, MUL, 7, 0], [600, 300, 3, SIN, 7, 0]],
    "device": [],
    "memory": None,
    "left_out": {},
}


def measured(**changes: Any) -> Timeline:
    timeline = attribute(recording(timeline=RAW | changes), "x").timeline
    assert timeline is not None
    return timeline


def test_a_line_lasts_as_long_as_its_number_says() -> None:
    code = {e.span.line: e for e in measured().events if e.lane == 0 and e.span}
    assert code[2].duration_ms == pytest.approx(4.0)
    assert code[8].duration_ms == pytest.approx(5.0)
    assert code[3].duration_ms == pytest.approx(0.5 + 5.0)
    assert (code[3].depth, code[8].depth) == (0, 1)
    assert [code[line].name for line in (2, 3, 8)] == ["Net.forward", "Net.forward", "helper"]


def test_it_ends_at_the_untraced_median_and_says_what_the_profiler_made_of_it() -> None:
    timeline = measured()
    assert timeline.total_ms == 10.0
    assert timeline.profiled_ms == pytest.approx(0.001)
    assert max(e.end_ms for e in timeline.events) == pytest.approx(10.0 - 0.25, abs=0.25)


def test_operators_lie_inside_their_line_and_inside_each_other() -> None:
    timeline = measured()
    assert timeline.lanes == (Lane("code", "Code"), Lane("host", "Host"))
    mul, to, sin = (e for e in timeline.events if e.lane == 1)
    assert (mul.name, to.name, sin.name) == ("aten::mul", "aten::to", "aten::sin")
    assert (mul.depth, to.depth, sin.depth) == (0, 1, 0)
    assert mul.duration_ms == pytest.approx(4.0 * 200 / 400)
    assert to.duration_ms == pytest.approx(4.0 * 50 / 400)
    assert mul.start_ms <= to.start_ms
    assert to.end_ms <= mul.end_ms
    assert mul.shapes == ((2, 2),)


def test_each_thread_has_a_lane() -> None:
    other = [*RAW["host"], [130, 100, 2, MUL, 9, 0]]
    assert [lane.name for lane in measured(host=other).lanes] == ["Code", "Host", "Host, thread 2"]


def on_device(kernels: list[list[int]]) -> Timeline:
    rows = [[OUTSIDE, 0, 0, 0, 0], [WAITING, 0, 0, 5 * MS, 0], [0, 2, 1, 5 * MS, 0]]
    environment = recording()["environment"] | {"device": "cuda:0"}
    raw = RAW | {"lines": [[0, 1000, MUL]], "host": [], "device": kernels}
    clock = {"line_ns": 0.0, "call_ns": 0.0, "iterations": [rows]}
    iterations = [iteration(ops=[], calls=[])]
    timeline = attribute(
        recording(timeline=raw, clock=clock, iterations=iterations, environment=environment), "x"
    ).timeline
    assert timeline is not None
    return timeline


def test_a_kernel_keeps_its_duration_and_follows_its_launch() -> None:
    (kernel,) = (e for e in on_device([[520, 2 * MS, 0, ADD, 0, 7, 500]]).events if e.lane == 1)
    assert kernel.duration_ms == pytest.approx(2.0)
    # Half the line is over at the launch; it took 20 ns to start, which no host slows down.
    assert kernel.start_ms == pytest.approx(2.5 + 20 / MS)


def test_kernels_of_one_stream_do_not_overlap_and_streams_have_their_lanes() -> None:
    timeline = on_device(
        [[100, 9 * MS, 0, ADD, 0, 7, 90], [9 * MS + 100, MS, 0, ADD, 0, 7, 110], [300, MS, 0, ADD, 0, 8, 290]]
    )
    assert [lane.name for lane in timeline.lanes] == ["Code", "GPU 0, stream 7", "GPU 0, stream 8"]
    first, second = (e for e in timeline.events if e.lane == 1)
    assert second.start_ms == pytest.approx(first.end_ms)


def test_memory_names_who_holds_the_peak() -> None:
    memory = {
        "points": [[150, 4096, MUL], [200, 8192, ADD], [600, 0, SIN]],
        "peak_ns": 200,
        "peak_bytes": 8192,
        "held": [[MUL, 1024, 1], [ADD, 3072, 2], [OUTSIDE, 4096, 1]],
    }
    found = measured(memory=memory).memory
    assert found is not None
    assert [(held.total_bytes, held.count, held.span and held.span.line) for held in found.held] == [
        (4096, 1, None), (3072, 2, 2), (1024, 1, 2),
    ]  # fmt: skip
    assert (found.peak_bytes, found.points[1].at_ms) == (8192, found.peak_ms)
    assert [point.total_bytes for point in found.points] == [4096, 8192, 0]


def test_what_a_long_forward_leaves_out_is_told() -> None:
    timeline = measured(left_out={"host": [12, 3 * MS], "device": [4, MS]})
    assert (timeline.left_out, timeline.left_out_ms) == (16, 4.0)


def test_a_real_forward_on_a_device(h200: Recording) -> None:
    """Thousands of kernels that the host launches one by one: the device waits for it most of the time."""
    profile = attribute(h200, "slow_bert.py:build")
    timeline, forward = profile.timeline, profile.forward
    assert timeline is not None
    assert forward.device_busy_ms is not None
    assert [lane.name for lane in timeline.lanes] == ["Code", "Host", "GPU 0, stream 7"]
    lanes = [[e for e in timeline.events if e.lane == lane] for lane in range(3)]
    assert max(e.end_ms for e in timeline.events) == pytest.approx(forward.wall_ms.median, rel=0.01)
    kernels = sum(e.duration_ms for e in lanes[2])
    assert kernels == pytest.approx(forward.device_busy_ms, rel=0.05)
    for code, cost in line_totals(timeline, profile).items():
        assert code == pytest.approx(cost, rel=0.02)
    starts = [e.start_ms for e in lanes[2]]
    assert starts == sorted(starts)
    assert timeline.memory is not None
    # Nothing is freed with gradients on: what is held at the end is what was held at most.
    assert timeline.memory.peak_bytes > 40 * 2**20


def line_totals(timeline: Timeline, profile: Profile) -> dict[float, float]:
    """Time of the costliest lines that call no user function, on the timeline and beside the code."""
    drawn: dict[int, float] = defaultdict(float)
    for event in timeline.events:
        if event.lane == 0 and event.span is not None:
            drawn[event.span.line] += event.duration_ms
    costs: dict[int, float] = defaultdict(float)
    for cost in profile.lines:
        if cost.total_ms == cost.self_ms:
            costs[cost.span.line] += cost.self_ms
    costly = [line for line, cost in costs.items() if cost > 0.05 * profile.forward.wall_ms.median]
    assert len(costly) >= 4
    return {drawn[line]: costs[line] for line in costly}
