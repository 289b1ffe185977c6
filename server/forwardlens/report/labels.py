"""What stands beside the code: the label of a line, the summary of a forward, the title of a fix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from forwardlens.model import Bound, ExpressionCost, Fix, Profile, Quantiles, Verification
from forwardlens.report.numbers import STALE, format_count, format_factor, format_ms, format_share

SMALLEST_LABEL = 0.01
"""The share of the forward below which a line stays without a label: a number on every line is noise."""

_HEAT = (0.01, 0.05, 0.15, 0.35)
_SEPARATOR = " · "
_BOUNDS: Mapping[Bound, str] = {
    "dispatch": "bound by dispatch",
    "compute": "bound by compute",
    "sync": "bound by waiting",
    "memory": "bound by memory",
    "mixed": "bound by several things",
}


@dataclass(frozen=True, slots=True)
class LineCost:
    """What the expressions that begin on one line cost together, as measured."""

    line: int
    costs: tuple[ExpressionCost, ...]
    forward_ms: float

    @property
    def self_ms(self) -> float:
        return sum(cost.self_ms for cost in self.costs)

    @property
    def total_ms(self) -> float:
        """With the user's functions that the line calls."""
        apart = (cost for cost in self.costs if not any(_runs_inside(cost, other) for other in self.costs))
        return max(self.self_ms, sum(cost.total_ms for cost in apart))

    @property
    def share(self) -> float:
        return sum(cost.share for cost in self.costs)

    @property
    def total_share(self) -> float:
        return self.total_ms / self.forward_ms if self.forward_ms else 0.0

    @property
    def calls(self) -> int:
        return max(cost.calls for cost in self.costs)


def _runs_inside(cost: ExpressionCost, other: ExpressionCost) -> bool:
    """Whether an expression is the body of another on its line, a comprehension, whose total already counts it."""
    contained = cost is not other and other.span.contains(cost.span)
    return contained and cost.calls > other.calls and cost.total_ms <= other.total_ms


def line_costs(profile: Profile, file: str) -> tuple[LineCost, ...]:
    """The measured lines of a file, from top to bottom."""
    lines: defaultdict[int, list[ExpressionCost]] = defaultdict(list)
    for cost in profile.in_file(file):
        lines[cost.span.line].append(cost)
    median = profile.forward.wall_ms.median
    return tuple(LineCost(line, tuple(lines[line]), median) for line in sorted(lines))


def line_label(line: LineCost, *, stale: bool = False) -> str | None:
    """`71 % · 4.70 ms · 128 calls`; None for a line that is not worth a label.

    A line that only calls the user's own functions costs little itself: its label tells what lies behind it.
    """
    mark = STALE if stale else ""
    if line.share >= SMALLEST_LABEL:
        parts = [f"{mark}{format_share(line.share)}", format_ms(line.self_ms)]
    elif line.total_share >= SMALLEST_LABEL:
        parts = [f"{mark}{format_share(line.total_share)} in its calls", format_ms(line.total_ms)]
    else:
        return None
    if line.calls > 1:
        parts.append(format_count(line.calls, "call"))
    waits = sum(cost.blocked_ms for cost in line.costs)
    if line.forward_ms and waits / line.forward_ms >= SMALLEST_LABEL:
        parts.append(f"waits {format_ms(waits)}")
    return _SEPARATOR.join(parts)


def heat_level(share: float) -> int:
    """0 for a line without heat, else 1 to 4."""
    return sum(share >= limit for limit in _HEAT)


def forward_label(
    profile: Profile, findings: int, smaller: int = 0, *, stale: bool = False, was: Quantiles | None = None
) -> str:
    """`6.60 ms · bound by dispatch · 3 findings`, and how many `smaller` ones are not shown.

    Of code that has changed nobody knows that it has none.
    """
    median = f"{STALE if stale else ''}{format_ms(profile.forward.wall_ms.median)}"
    if was is not None:
        median = f"was {format_ms(was.median)}, now {median}"
    parts = [median, _BOUNDS[profile.forward.bound]]
    if findings or smaller or not stale:
        found = format_count(findings, "finding") if findings else "no findings"
        parts.append(found + (f" and {smaller} smaller" if smaller else ""))
    return _SEPARATOR.join(parts)


def fix_label(fix: Fix) -> str:
    """A fix's title with what trying it showed, or with what to know before applying it."""
    if fix.applicability == "unsafe" and fix.reason and not fix.proven:
        return f"{fix.title} (check first: {fix.reason})"
    if fix.verified is None:
        return fix.title
    return f"{fix.title} ({outcome_label(fix.verified)})"


def outcome_label(tried: Verification) -> str:
    """`measured: this forward 9.8x faster, outputs equal`."""
    match tried.outcome:
        case "equal" if tried.speedup is not None:
            return f"measured: this forward {format_factor(tried.speedup)} faster, outputs equal"
        case "equal":
            return "outputs equal"
        case "no-gain":
            return "outputs equal, no gain measured"
        case "slower":
            return "measured slower"
        case "differs":
            return "outputs differ"
        case "raises":
            return "fails when tried"
