"""Numbers as users read them. Every surface formats through here, so one cost looks the same everywhere."""

from __future__ import annotations

STALE = "~"
"""Stands before a number that was measured on text that has changed since."""

_TIME_UNITS = (("s", 1e3), ("ms", 1.0), ("µs", 1e-3))
_BYTE_UNITS = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


def three_digits(value: float) -> str:
    """Three significant digits without an exponent: `0.0123`, `1.23`, `12.3`, `123`, `1230`."""
    if value == 0:
        return "0"
    digits, exponent = f"{abs(value):.2e}".split("e")
    power = int(exponent)
    rounded = float(digits) * 10.0**power
    sign = "-" if value < 0 else ""
    return f"{sign}{rounded:.{max(0, 2 - power)}f}"


def format_ms(ms: float) -> str:
    """Milliseconds in the unit that keeps the number between 1 and 999: `980 µs`, `1.25 ms`, `2.40 s`."""
    size = abs(ms)
    if size < 5e-7:  # half a nanosecond: below any clock
        return "0 ms"
    for unit, factor in _TIME_UNITS:
        if size / factor >= 0.9995:  # what rounds to 1.00 is written in the larger unit
            return f"{three_digits(ms / factor)} {unit}"
    return f"{three_digits(ms / _TIME_UNITS[-1][1])} µs"


def format_share(share: float) -> str:
    """A share of the forward (0 to 1) in percent, no finer than a run can tell: `71 %`, `3.4 %`, `<0.1 %`."""
    percent = share * 100
    if abs(percent) < 0.05:
        return "0 %" if percent == 0 else "<0.1 %"
    if abs(percent) < 9.95:
        return f"{percent:.1f} %"
    return f"{percent:.0f} %"


def format_bytes(count: float) -> str:
    """Bytes in binary units: `512 B`, `1.50 MiB`."""
    size = abs(count)
    for unit, factor in _BYTE_UNITS:
        if size >= factor:
            return f"{three_digits(count / factor)} {unit}"
    return f"{count:.0f} B"


def format_count(number: int, noun: str | None = None, plural: str | None = None) -> str:
    """`12,345`; with a noun `1 call`, `128 calls`."""
    if noun is None:
        return f"{number:,}"
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def format_factor(factor: float) -> str:
    """How many times faster: `1.24x`, `9.8x`, `33x`. Near 1, where it matters, with one digit more."""
    if factor < 2:
        return f"{factor:.2f}x"
    return f"{factor:.1f}x" if factor < 9.95 else f"{factor:.0f}x"


def format_shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"
