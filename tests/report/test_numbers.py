"""Numbers as users read them, from the definitions of their units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forwardlens.report.numbers import (
    format_bytes,
    format_count,
    format_factor,
    format_ms,
    format_shape,
    format_share,
    three_digits,
)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (1e-9, "0 ms"),
        (0.0001, "0.100 µs"),
        (0.001, "1.00 µs"),
        (0.0123, "12.3 µs"),
        (0.5, "500 µs"),
        (0.9994, "999 µs"),
        (0.9996, "1.00 ms"),
        (1, "1.00 ms"),
        (12.345, "12.3 ms"),
        (999.4, "999 ms"),
        (999.6, "1.00 s"),
        (1500, "1.50 s"),
        (60_000, "60.0 s"),
        (1_000_000, "1000 s"),
        (-0.25, "-250 µs"),
    ],
)
def test_time(ms: float, text: str) -> None:
    assert format_ms(ms) == text


@given(st.floats(1e-5, 1e6))
def test_a_time_can_be_read_back_to_three_digits(ms: float) -> None:
    number, unit = format_ms(ms).split(" ")
    back = float(number) * {"µs": 1e-3, "ms": 1.0, "s": 1e3}[unit]
    assert back == pytest.approx(ms, rel=0.005, abs=1e-9)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0, "0 %"),
        (0.0004, "<0.1 %"),
        (0.001, "0.1 %"),
        (0.0342, "3.4 %"),
        (0.0994, "9.9 %"),
        (0.0996, "10 %"),
        (0.714, "71 %"),
        (1, "100 %"),
    ],
)
def test_share(share: float, text: str) -> None:
    assert format_share(share) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (512, "512 B"),
        (1024, "1.00 KiB"),
        (1536 * 1024, "1.50 MiB"),
        (1024**3, "1.00 GiB"),
        (-2048, "-2.00 KiB"),
    ],
)
def test_bytes(count: int, text: str) -> None:
    assert format_bytes(count) == text


def test_counts() -> None:
    assert format_count(12345) == "12,345"
    assert (format_count(1, "call"), format_count(128, "call")) == ("1 call", "128 calls")
    assert (format_count(0, "fix", "fixes"), format_count(1, "fix", "fixes")) == ("0 fixes", "1 fix")


@pytest.mark.parametrize(
    ("factor", "text"), [(1.238, "1.24x"), (2, "2.0x"), (9.84, "9.8x"), (9.96, "10x"), (33.3, "33x")]
)
def test_factor(factor: float, text: str) -> None:
    assert format_factor(factor) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.00123456, "0.00123"), (1.005, "1.00"), (9.999, "10.0"), (123456, "123000"), (-7, "-7.00")],
)
def test_three_digits(value: float, text: str) -> None:
    assert three_digits(value) == text


def test_shape() -> None:
    assert (format_shape((4, 16)), format_shape(())) == ("[4, 16]", "[]")
