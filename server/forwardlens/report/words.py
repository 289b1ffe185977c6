"""What is not a number, in words."""

from __future__ import annotations

from collections.abc import Mapping

from forwardlens.model import Bound, Evidence, Verification
from forwardlens.report.numbers import format_count, format_factor, format_ms, three_digits

_BOUNDS: Mapping[Bound, str] = {
    "dispatch": "bound by dispatch: the time goes into Python and into starting operators",
    "compute": "bound by compute: the time goes into the operators themselves",
    "sync": "bound by waiting: the host waits for the device",
    "memory": "bound by memory: the time goes into moving and allocating data",
    "mixed": "no single thing bounds it",
}


def bound_text(bound: Bound) -> str:
    return _BOUNDS[bound]


def evidence_text(evidence: Evidence) -> str:
    """`128 calls` reads better than `calls=128`, but only the rules know the grammar: names with their values."""
    return ", ".join(f"{name.replace('_', ' ')} {_value(value)}" for name, value in evidence.items())


def verification_text(tried: Verification | None) -> str:
    """Whether a fix was run, and what came of it."""
    if tried is None:
        return "not tried"
    if tried.outcome == "equal":
        return f"tried: {_speedup(tried)}, outputs equal"
    if tried.outcome == "differs":
        return f"tried: outputs differ ({tried.message})" if tried.message else "tried: outputs differ"
    if tried.outcome == "raises":
        return f"tried: it fails ({tried.message})" if tried.message else "tried: it fails"
    if tried.outcome == "slower":
        return f"tried: slower{_times(tried)}"
    return f"tried: no measurable gain{_times(tried)}"


def _speedup(tried: Verification) -> str:
    if tried.speedup is None:
        return "faster"
    if tried.speedup_low is None or tried.speedup_high is None:
        return f"{format_factor(tried.speedup)} faster"
    interval = f"{format_factor(tried.speedup_low)} to {format_factor(tried.speedup_high)}"
    return f"{format_factor(tried.speedup)} faster ({interval} over {format_count(tried.pairs, 'pair')})"


def _times(tried: Verification) -> str:
    if tried.before_ms is None or tried.after_ms is None:
        return ""
    return f" ({format_ms(tried.before_ms)} before, {format_ms(tried.after_ms)} after)"


def _value(value: str | float | bool) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return three_digits(value)
    return format_count(value) if isinstance(value, int) else value
