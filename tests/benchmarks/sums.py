"""Do the lines add up to what the forward takes when nobody is looking?"""

from __future__ import annotations

from tests.benchmarks.programs import PROGRAMS, profiled, untraced_ms
from tests.benchmarks.table import Table

ATTEMPTS = 3


def run() -> Table:
    rows: list[tuple[object, ...]] = []
    worst_sum = worst_rest = 0.0
    for program in PROGRAMS:
        # A process starts with its own memory layout and neighbours: before and after, and the median of three tries.
        tries: list[tuple[float, float, float, float]] = []
        for _ in range(ATTEMPTS):
            profile = profiled(program)
            alone = untraced_ms(program)
            total = sum(c.self_ms for c in profile.lines) + profile.unattributed_share * profile.forward.wall_ms.median
            tries.append((total / alone - 1, alone, total, profile.unattributed_share))
        error, alone, total, rest = sorted(tries, key=lambda t: abs(t[0]))[ATTEMPTS // 2]
        worst_sum, worst_rest = max(worst_sum, abs(error)), max(worst_rest, rest)
        rows.append((program.name, f"{alone:.3f}", f"{total:.3f}", f"{error:+.1%}", f"{rest:.2%}"))
    return Table(
        "Sum of the lines against an untraced process",
        "within 5 % on every program, unattributed at most 2 %",
        f"at most {worst_sum:.1%} off, unattributed at most {worst_rest:.2%}",
        ("program", "untraced ms", "lines + unattributed ms", "difference", "unattributed"),
        rows,
    )
