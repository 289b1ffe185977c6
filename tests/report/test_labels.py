"""What stands beside the code."""

from __future__ import annotations

import pytest

from forwardlens.model import ExpressionCost, Fix, OpCost, Outcome, Span, Verification
from forwardlens.report.hover import line_markdown, line_text
from forwardlens.report.labels import LineCost, fix_label, heat_level, line_label
from forwardlens.source.text import SourceText

TEXT = SourceText("/m.py", "x = self.word(ids[:, t]) | y  # `\n")


def op(name: str = "aten::embedding", ms: float = 4.0, **more: int) -> OpCost:
    values = {"calls": 128, "alloc_bytes": 0, "shape_variants": 1, **more}
    return OpCost(
        name,
        values["calls"],
        ms,
        ms,
        0.0,
        values["alloc_bytes"],
        ((4, 16), ()),
        values["shape_variants"],
        outermost=True,
    )


def cost(
    self_ms: float,
    total_ms: float | None = None,
    calls: int = 1,
    columns: tuple[int, int] = (4, 24),
    blocked: float = 0.0,
    ops: tuple[OpCost, ...] = (),
) -> ExpressionCost:
    span = Span("/m.py", 1, columns[0], 1, columns[1])
    total = self_ms if total_ms is None else total_ms
    return ExpressionCost(span, "f", calls, calls, self_ms, total, self_ms / 10, 0.0, blocked, 0, ops)


def line(*costs: ExpressionCost) -> LineCost:
    return LineCost(1, costs, 10.0)


@pytest.mark.parametrize(
    ("costs", "label"),
    [
        ((cost(7.1),), "71 % · 7.10 ms"),
        ((cost(7.1, calls=128),), "71 % · 7.10 ms · 128 calls"),
        ((cost(4.0), cost(0.5, columns=(4, 28))), "45 % · 4.50 ms"),
        ((cost(0.02, 6.0, calls=2),), "60 % in its calls · 6.00 ms · 2 calls"),
        ((cost(3.0, blocked=2.5),), "30 % · 3.00 ms · waits 2.50 ms"),
        ((cost(0.09),), None),
    ],
)
def test_the_label_of_a_line(costs: tuple[ExpressionCost, ...], label: str | None) -> None:
    assert line_label(line(*costs)) == label


def test_a_stale_label_is_marked() -> None:
    assert line_label(line(cost(7.1)), stale=True) == "~71 % · 7.10 ms"


def test_the_body_of_a_comprehension_is_counted_once() -> None:
    comprehension, body = cost(0.1, 6.0, columns=(4, 28)), cost(5.9, 5.9, calls=256, columns=(5, 20))
    assert line(comprehension, body).total_ms == pytest.approx(6.0)


def test_the_totals_of_calls_that_follow_each_other_add_up() -> None:
    outer, argument = cost(0.1, 3.0, columns=(4, 28)), cost(0.1, 2.0, columns=(10, 20))
    assert line(outer, argument).total_ms == pytest.approx(5.0)


@pytest.mark.parametrize(("share", "level"), [(0.009, 0), (0.01, 1), (0.05, 2), (0.15, 3), (0.35, 4), (1.0, 4)])
def test_heat(share: float, level: int) -> None:
    assert heat_level(share) == level


def fix(outcome: Outcome | None = None, speedup: float | None = None, reason: str | None = None) -> Fix:
    tried = None if outcome is None else Verification(outcome, speedup=speedup)
    return Fix("Look up at once", "unsafe" if reason else "safe", (), reason, tried)


@pytest.mark.parametrize(
    ("given", "label"),
    [
        (fix(), "Look up at once"),
        (fix("equal", 33.0), "Look up at once (measured: this forward 33x faster, outputs equal)"),
        (fix("no-gain"), "Look up at once (outputs equal, no gain measured)"),
        (fix("slower"), "Look up at once (measured slower)"),
        (fix(reason="order may differ"), "Look up at once (check first: order may differ)"),
        (fix("equal", 2.0, "order"), "Look up at once (measured: this forward 2.0x faster, outputs equal)"),
    ],
)
def test_the_title_of_a_fix(given: Fix, label: str) -> None:
    assert fix_label(given) == label


def test_the_breakdown_lists_expressions_and_operators() -> None:
    both = line(
        cost(4.8, calls=128, ops=(op(ms=4.0, alloc_bytes=4096, shape_variants=3), op("aten::select", 0.8))),
        cost(0.2, 1.2, columns=(4, 28), blocked=0.1, ops=(op("aten::bitwise_or", 0.2, calls=1),)),
    )
    assert line_markdown(both, TEXT) == (
        "**5.00 ms, 50 % of this forward**\n\n"
        "The functions it calls: 1.00 ms, 10 %.\n\n"
        "The host waits 100 µs of it for the device.\n\n"
        "| Expression | Time | Share | Calls |\n"
        "| --- | ---: | ---: | ---: |\n"
        "| `self.word(ids[:, t])` | 4.80 ms | 48 % | 128 |\n"
        "| `self.word(ids[:, t]) \\| y` | 200 µs | 2.0 % | 1 |\n\n"
        "| Operator | Calls | Time | Memory | Shapes |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| `embedding` | 128 | 4.00 ms | 4.00 KiB | \\[4, 16\\] and 2 others |\n"
        "| `select` | 128 | 800 µs |  | \\[4, 16\\] |\n"
        "| `bitwise_or` | 1 | 200 µs |  | \\[4, 16\\] |"
    )


def test_a_stale_breakdown_says_so() -> None:
    assert "This line has changed since it was measured." in line_markdown(line(cost(1.0)), TEXT, stale=True)


def test_code_with_backticks_stays_code() -> None:
    assert "| `` y  # ` `` |".replace("  ", " ") in line_markdown(
        line(cost(1.0, columns=(27, 33)), cost(0.5, columns=(27, 28))), TEXT
    )


def test_the_rarest_operators_are_summed_up() -> None:
    many = line(cost(5.0, ops=tuple(op(f"aten::op{k}", 1.0 - k / 100, calls=1) for k in range(11))))
    rows = line_text(many, TEXT).splitlines()
    assert rows[-1].split() == ["3", "more", "3", "2.73", "ms"]
    assert len(rows) == 2 + 1 + 8 + 1


def test_the_plain_breakdown_is_aligned() -> None:
    text = line_text(line(cost(4.8, ops=(op(ms=4.0), op("aten::select", 0.8)))), TEXT)
    assert text.splitlines()[2:] == [
        "Operator   Calls  Time     Shapes",
        "embedding  128    4.00 ms  [4, 16]",
        "select     128    800 µs   [4, 16]",
    ]
