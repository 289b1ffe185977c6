"""Do the lines add up to what the forward takes when nobody is looking?"""

from __future__ import annotations

import statistics

from tests.benchmarks.programs import PROGRAMS, profiled, untraced_ms
from tests.benchmarks.table import Table

from forwardlens.model import Profile

ATTEMPTS = 5


def run() -> Table:
    rows: list[tuple[object, ...]] = []
    worst_sum = worst_rest = 0.0
    for program in PROGRAMS:
        # Each process has its own memory layout and neighbours, so several of each are compared, taken in turns.
        alone: list[float] = []
        total: list[float] = []
        rest: list[float] = []
        for _ in range(ATTEMPTS):
            profile = profiled(program)
            alone.append(untraced_ms(program))
            total.append(_total(profile))
            rest.append(profile.unattributed_share)
        untraced, ours, outside = statistics.median(alone), statistics.median(total), statistics.median(rest)
        error = ours / untraced - 1
        worst_sum, worst_rest = max(worst_sum, abs(error)), max(worst_rest, outside)
        spread = f"{min(alone):.3f} to {max(alone):.3f}"
        rows.append((program.name, f"{untraced:.3f}", spread, f"{ours:.3f}", f"{error:+.1%}", f"{outside:.2%}"))
    return Table(
        "Sum of the lines against an untraced process",
        "within 5 % on every program, unattributed at most 2 %",
        f"at most {worst_sum:.1%} off, unattributed at most {worst_rest:.2%}",
        ("program", "untraced ms", "its processes", "lines + unattributed ms", "difference", "unattributed"),
        rows,
    )


def _total(profile: Profile) -> float:
    return sum(c.self_ms for c in profile.lines) + profile.unattributed_share * profile.forward.wall_ms.median
