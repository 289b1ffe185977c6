"""Recordings become profiles: small ones made by hand, with every number known."""

from __future__ import annotations

from typing import Any

import pytest

from forwardlens.attribution.attribute import attribute
from forwardlens.attribution.calibrate import calibrate
from forwardlens.attribution.recording import OUTSIDE, WAITING, Recording

TEXT = """\
def forward(self, x):
    a = x + x * 2
    b = helper(a)
    return b


def helper(y):
    return y.sin()
"""
FILE = "/w/model.py"
ADD, MUL, CALL, SIN = range(4)
MS = 1_000_000
PLACES = [[0, 2, 8, 2, 17, False], [0, 2, 12, 2, 17, False], [0, 3, 8, 3, 17, False], [1, 8, 11, 8, 18, False]]
GRAD = {
    "grad_enabled": True,
    "inference_mode": False,
    "training": False,
    "outputs_require_grad": True,
    "backward_ran": False,
}


def op(name: int, place: int, total: int, own: int, depth: int = 0, device: int = 0) -> list[int]:
    return [name, place, 0, depth, total, own, 0, device, 0]


def iteration(**changes: Any) -> dict[str, Any]:
    return {
        "ops": [op(1, MUL, 200, 150), op(2, MUL, 50, 50, depth=1), op(0, ADD, 100, 100), op(3, SIN, 300, 300)],
        "places": [[MUL, 1, 1, 300], [ADD, 1, 1, 100], [CALL, 1, 1, 50], [SIN, 1, 1, 400]],
        "calls": [[OUTSIDE, 0, 850], [CALL, 1, 400]],
        "memory": [[ADD, 4096]],
        "backward": [],
        "device_busy_ns": 0,
        "events": 20,
        **changes,
    }


NO_TIMELINE: dict[str, Any] = {
    "span_ns": 0, "lines": [], "host": [], "device": [], "memory": None, "left_out": {},
}  # fmt: skip


def recording(**changes: Any) -> Recording:
    rows = [
        [OUTSIDE, 0, 0, MS // 2, 0],
        [WAITING, 0, 0, 0, 0],
        [0, 2, 1, 4 * MS, 0],
        [0, 3, 1, MS // 2, 0],
        [1, 8, 1, 5 * MS, 0],
    ]
    base: dict[str, Any] = {
        "environment": {
            "python": "3.12.1", "torch": "2.13.0", "platform": "Linux x86_64", "device": "cpu", "device_name": "x",
            "cuda_runtime": None, "driver": None, "threads": 1, "grad_mode": True, "training": False,
        },
        "target": None,
        "described": "`build()` of model.py",
        "wall_ns": [10 * MS, 10 * MS, 30 * MS],
        "clock": {"line_ns": 0.0, "call_ns": 0.0, "iterations": [rows]},
        "grad": GRAD,
        "peak_memory_bytes": None,
        "functions": [[FILE, "Net.forward", 1], [FILE, "helper", 7]],
        "places": PLACES,
        "names": ["aten::add", "aten::mul", "aten::to", "aten::sin"],
        "shapes": [[[2, 2]]],
        "iterations": [iteration()],
        "timeline": NO_TIMELINE,
        "texts": {FILE: TEXT},
        "truncated": False,
        "stopped": False,
        **changes,
    }  # fmt: skip
    return base  # type: ignore[return-value]


def test_lines_and_unattributed_add_up_to_the_median() -> None:
    profile = attribute(recording(), "model.py:build")
    assert profile.forward.wall_ms.median == 10.0
    assert profile.unattributed_share == pytest.approx(0.05)
    assert sum(c.self_ms for c in profile.lines) == pytest.approx(9.5)


def test_expressions_share_their_line_as_the_profiled_time_did() -> None:
    mul, add = (c for c in sorted(attribute(recording(), "x").lines, key=lambda c: -c.span.column) if c.span.line == 2)
    assert (mul.span.column, mul.span.end_column, mul.self_ms) == (12, 17, pytest.approx(3.0))
    assert (add.span.column, add.span.end_column, add.self_ms) == (8, 17, pytest.approx(1.0))
    assert add.alloc_bytes == 4096


def test_operators_are_calibrated_with_their_expression() -> None:
    mul = next(c for c in attribute(recording(), "x").lines if c.span.column == 12)
    assert [(o.name, o.total_ms, o.self_ms, o.outermost) for o in mul.ops] == [
        ("aten::mul", pytest.approx(2.0), pytest.approx(1.5), True),
        ("aten::to", pytest.approx(0.5), pytest.approx(0.5), False),
    ]
    assert mul.op_calls("aten::mul", "aten::to") == 2


def test_shapes_are_told_apart_from_dtypes() -> None:
    """The same shapes in two dtypes are one shape, and a recording from before dtypes were kept still loads."""
    rows = [op(0, ADD, 100, 100), op(0, ADD, 100, 100)]
    rows[1][6] = 1
    made = recording(shapes=[[[4]], [[4]]], iterations=[iteration(ops=rows)])
    assert next(c for c in attribute(made, "m").lines if c.op_calls("aten::add")).ops[0].dtypes == ()
    made["dtypes"] = [["float32"], ["float16"]]
    add = next(c for c in attribute(made, "m").lines if c.op_calls("aten::add")).ops[0]
    assert (add.shapes, add.shape_variants, add.dtypes) == (((4,),), 1, ("float32",))


def test_total_adds_the_user_functions_called() -> None:
    call = next(c for c in attribute(recording(), "x").lines if c.span.line == 3)
    assert call.self_ms == pytest.approx(0.5)
    assert call.total_ms == pytest.approx(5.5)


def test_recursion_is_counted_once() -> None:
    again = iteration(calls=[[OUTSIDE, 0, 850], [CALL, 0, 800]])
    call = next(c for c in attribute(recording(iterations=[again]), "x").lines if c.span.line == 3)
    assert call.total_ms <= 10.0


def test_nested_forwards_behind_one_wrapper_keep_their_own_totals() -> None:
    """Two forwards behind one decorator: the outer one holds the inner one's time, and the wrapper is in between."""
    outer, inner, wrapper = 0, 1, 2
    places = [[outer, 2, 8, 2, 17, False], [inner, 3, 8, 3, 17, False], [wrapper, 8, 11, 8, 18, False]]
    run = iteration(
        ops=[op(3, 1, 800, 800)],
        places=[[0, 1, 1, 20], [1, 1, 1, 800], [2, 2, 1, 30]],
        calls=[[OUTSIDE, wrapper, 850], [2, outer, 840], [0, wrapper, 820], [2, inner, 800]],
        memory=[],
    )
    rows = [[outer, 2, 1, MS, 0], [inner, 3, 1, 8 * MS, 0], [wrapper, 8, 2, MS, 0]]
    functions = [[FILE, "Outer.forward", 1], [FILE, "Inner.forward", 1], [FILE, "wrap.wrapper", 7]]
    clock = {"line_ns": 0.0, "call_ns": 0.0, "iterations": [rows]}
    profile = attribute(recording(iterations=[run], places=places, functions=functions, clock=clock), "x")
    totals = {cost.function: cost.total_ms for cost in profile.lines}
    assert totals["Outer.forward"] > totals["Inner.forward"]
    assert totals["Inner.forward"] == pytest.approx(8.0)
    assert totals["wrap.wrapper"] <= 1.2 * profile.forward.wall_ms.median
    assert profile.outermost == ((FILE, "wrap.wrapper"), (FILE, "Outer.forward"))


def test_the_forward_starts_in_the_function_that_nothing_of_the_users_calls() -> None:
    assert attribute(recording(), "x").outermost == ((FILE, "Net.forward"), (FILE, "helper"))


def test_what_runs_inside_itself_is_not_taken_for_the_function_around_it() -> None:
    """The inner one's runs add up to more than the whole forward."""
    places = [[0, 2, 8, 2, 17, False], [1, 8, 11, 8, 18, False]]
    run = iteration(
        ops=[op(3, 1, 800, 800)],
        places=[[0, 1, 1, 20], [1, 3, 1, 800]],
        calls=[[OUTSIDE, 0, 850], [0, 1, 840], [1, 1, 1600]],
        memory=[],
    )
    profile = attribute(recording(iterations=[run], places=places), "x")
    assert profile.outermost[0] == (FILE, "Net.forward")


def test_one_slow_instance_does_not_move_an_operator() -> None:
    slow = iteration()
    slow["ops"][2] = op(0, ADD, 9000, 9000)
    profile = attribute(recording(iterations=[iteration(), slow, iteration()]), "x")
    add = next(c for c in profile.lines if c.span.column == 8 and c.span.line == 2)
    assert add.ops[0].total_ms == pytest.approx(1.0)


def test_waiting_at_the_end_belongs_to_those_who_gave_the_device_work() -> None:
    rows = [[OUTSIDE, 0, 0, 0, 0], [WAITING, 0, 0, 5 * MS, 0], [0, 2, 1, 5 * MS, 0]]
    device = iteration(
        ops=[op(1, MUL, 200, 200, device=3 * MS), op(0, ADD, 100, 100, device=MS)], device_busy_ns=4 * MS
    )
    environment = {**recording()["environment"], "device": "cuda:0"}
    clock = {"line_ns": 0.0, "call_ns": 0.0, "iterations": [rows]}
    profile = attribute(recording(iterations=[device], clock=clock, environment=environment), "x")
    mul = next(c for c in profile.lines if c.span.column == 12)
    assert mul.self_ms == pytest.approx(5.0 * 3 / 4 + 5.0 * 3 / 4)
    assert mul.device_ms == pytest.approx(3.0)
    assert profile.unattributed_share == 0.0
    assert profile.forward.device_busy_ms == pytest.approx(4.0)


def test_code_outside_the_workspace_is_said_not_spread() -> None:
    rows = [[OUTSIDE, 0, 0, 10 * MS, 0], [WAITING, 0, 0, 0, 0]]
    clock = {"line_ns": 0.0, "call_ns": 0.0, "iterations": [rows]}
    none: dict[str, Any] = {"ops": [], "places": [], "calls": [], "memory": [], "backward": [], "device_busy_ns": 0}
    profile = attribute(recording(clock=clock, iterations=[none], functions=[], places=[], texts={}), "x")
    assert profile.lines == ()
    assert profile.unattributed_share == pytest.approx(1.0)
    assert [e.kind for e in profile.errors] == ["no-user-code"]


def test_columns_are_code_points_after_text_outside_ascii() -> None:
    text = TEXT.replace("    a = x + x * 2", "    ä = x + x * 2")
    places = [[0, 2, 9, 2, 18, False], [0, 2, 13, 2, 18, False], *recording()["places"][2:]]
    lines = attribute(recording(texts={FILE: text}, places=places), "x").lines
    assert [(c.span.column, c.span.end_column) for c in lines if c.span.line == 2] == [(8, 17), (12, 17)]


def test_lines_without_columns_cover_their_code() -> None:
    places = [[f, line, None, line, None, False] for f, line, *_ in recording()["places"]]
    lines = attribute(recording(places=places), "x").lines
    assert {(c.span.column, c.span.end_column) for c in lines if c.span.line == 2} == {(4, 17)}


def test_clock_cost_is_subtracted_by_events_before_scaling() -> None:
    clock = {"line_ns": 100.0, "call_ns": 50.0, "iterations": [[(0, 2, 20, 2000, 4), (0, 3, 2, 900, 0)]]}
    times = calibrate(clock, 1600.0)  # type: ignore[arg-type]
    assert times.lines == {(0, 2): pytest.approx(800.0), (0, 3): pytest.approx(800.0)}
    assert times.correction == pytest.approx(1.0)


def test_line_that_ran_in_one_clocked_run_only_is_no_cost() -> None:
    runs = [[(0, 2, 1, 1000, 0)], [(0, 2, 1, 1000, 0)], [(0, 2, 1, 1000, 0), (0, 9, 1, 500, 0)]]
    times = calibrate({"line_ns": 0.0, "call_ns": 0.0, "iterations": runs}, 1000.0)
    assert times.lines == {(0, 2): pytest.approx(1000.0), (0, 9): 0.0}


def test_a_clock_that_disagrees_is_told() -> None:
    profile = attribute(recording(wall_ns=[20 * MS]), "x")
    assert [e.kind for e in profile.errors] == ["calibration"]


def test_backward_is_on_the_forwards_expression_wherever_it_ran() -> None:
    names = [*recording()["names"], "MulBackward0 (backward)"]
    trained = iteration(
        ops=[*iteration()["ops"], op(4, MUL, 400, 400)],
        places=[*iteration()["places"], [OUTSIDE, 0, 0, 500]],
        backward=[[OUTSIDE, MUL, 400]],
    )
    profile = attribute(recording(iterations=[trained], names=names), "x")
    mul = next(c for c in profile.lines if c.span.column == 12)
    assert mul.backward_ms == pytest.approx(0.5 * 400 / 500)
    assert mul.self_ms == pytest.approx(3.0 + mul.backward_ms)
    assert profile.unattributed_share == pytest.approx(0.01)
    assert {o.name: o.total_ms for o in mul.ops}["MulBackward0 (backward)"] == pytest.approx(mul.backward_ms)
    assert sum(c.self_ms for c in profile.lines) == pytest.approx(9.9)


def test_device_time_of_a_real_recording_is_on_user_lines(h200: Recording) -> None:
    iterations = h200["iterations"]
    launched = sum(op[7] for iteration in iterations for op in iteration["ops"]) / len(iterations) / MS
    profile = attribute(h200, "slow_bert.py:build")
    assert sum(cost.device_ms for cost in profile.lines) == pytest.approx(launched, rel=0.01)
    assert profile.forward.device_busy_ms == pytest.approx(launched, rel=0.01)
    assert profile.unattributed_share < 0.02
    assert profile.forward.bound == "dispatch"


def test_a_real_recording_adds_up_and_knows_its_loops(h200: Recording) -> None:
    profile = attribute(h200, "slow_bert.py:build")
    median = profile.forward.wall_ms.median
    total = sum(cost.self_ms for cost in profile.lines)
    assert total + profile.unattributed_share * median == pytest.approx(median)
    lookup = next(cost for cost in profile.lines if cost.op_calls("aten::embedding") == 128)
    assert (lookup.calls, lookup.calls_per_entry) == (128, 128)
    masks = next(cost for cost in profile.lines if cost.op_calls("aten::where"))
    assert (masks.calls, masks.calls_per_entry) == (768, 128)
