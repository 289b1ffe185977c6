"""Do the lines add up to what the forward takes when nobody is looking?"""

from __future__ import annotations

import statistics

from tests.benchmarks.programs import PROGRAMS, Program, memory_kept, profiled, untraced_ms
from tests.benchmarks.table import Table

from forwardlens.model import Profile

PAIRS = 7


@memory_kept()
def run() -> Table:
    rows: list[tuple[object, ...]] = []
    worst_sum = worst_rest = 0.0
    for program in PROGRAMS:
        # Each process has its own memory layout and the machine its moods, so several pairs are taken, the order in
        # turns, and each of ours is compared with its own neighbour.
        pairs = [_pair(program, ours_first=bool(number % 2)) for number in range(PAIRS)]
        alone, profiles = [ms for ms, _ in pairs], [profile for _, profile in pairs]
        total = statistics.median(map(_total, profiles))
        outside = statistics.median(profile.unattributed_share for profile in profiles)
        error = statistics.median(_total(profile) / ms for ms, profile in pairs) - 1
        worst_sum, worst_rest = max(worst_sum, abs(error)), max(worst_rest, outside)
        untraced, spread = statistics.median(alone), f"{min(alone):.3f} to {max(alone):.3f}"
        rows.append((program.name, f"{untraced:.3f}", spread, f"{total:.3f}", f"{error:+.1%}", f"{outside:.2%}"))
    return Table(
        "Sum of the lines against an untraced process",
        "within 5 % on every program, unattributed at most 2 %",
        f"at most {worst_sum:.1%} off, unattributed at most {worst_rest:.2%}",
        ("program", "untraced ms", "its processes", "lines + unattributed ms", "median of the pairs", "unattributed"),
        rows,
    )


def _pair(program: Program, ours_first: bool) -> tuple[float, Profile]:
    """The untraced median in milliseconds of one process, and a profile measured right before or after it."""
    if ours_first:
        profile = profiled(program)
        return untraced_ms(program), profile
    return untraced_ms(program), profiled(program)


def _total(profile: Profile) -> float:
    return sum(c.self_ms for c in profile.lines) + profile.unattributed_share * profile.forward.wall_ms.median
