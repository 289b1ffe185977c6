"""Two runs of one forward, before and after an edit: what became of every line and of every operator."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from forwardlens.model import Profile, Quantiles
from forwardlens.report.labels import LineCost, line_costs
from forwardlens.source.linemap import LineMap, line_map
from forwardlens.source.text import SourceText

Verdict = Literal["faster", "slower", "same"]


@dataclass(frozen=True, slots=True)
class LineChange:
    """A line in both runs: `line` is where it was in the later text, None if it is not there any more. A time is None
    where the line did not run or did not exist. An edited line is compared with the one that stands in its place.
    """

    file: str
    line_before: int | None
    line: int | None
    function: str
    code: str
    before_ms: float | None
    after_ms: float | None

    @property
    def change_ms(self) -> float:
        return (self.after_ms or 0.0) - (self.before_ms or 0.0)


@dataclass(frozen=True, slots=True)
class OperatorChange:
    """An operator over the whole forward; 0 calls before if it appeared, 0 after if it vanished."""

    name: str
    calls_before: int
    calls: int
    before_ms: float
    after_ms: float

    @property
    def change_ms(self) -> float:
        return self.after_ms - self.before_ms


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both runs' times, and what changed, the largest change first."""

    before: Quantiles
    after: Quantiles
    verdict: Verdict
    lines: tuple[LineChange, ...]
    operators: tuple[OperatorChange, ...]


def compare(before: Profile, after: Profile) -> Comparison:
    old, new = before.forward.wall_ms, after.forward.wall_ms
    lines = sorted(_lines(before, after), key=lambda change: -abs(change.change_ms))
    operators = sorted(_operators(before, after), key=lambda change: -abs(change.change_ms))
    return Comparison(old, new, verdict(old, new), tuple(lines), tuple(operators))


def verdict(before: Quantiles, after: Quantiles) -> Verdict:
    """A difference counts if the middle 80 % of the runs do not overlap: what one run took, another may take too."""
    if after.p90 < before.p10:
        return "faster"
    return "slower" if after.p10 > before.p90 else "same"


def _lines(before: Profile, after: Profile) -> Iterable[LineChange]:
    for file in sorted({*before.texts, *after.texts}):
        old, new = _source(before, file), _source(after, file)
        costs_before, costs = _by_line(before, file), _by_line(after, file)
        lines = line_map(old, new)
        paired: set[int] = set()
        for number, cost in costs_before.items():
            now = _present(lines, number, costs)
            if now is not None:
                paired.add(now)
            same = costs.get(now) if now is not None else None
            code = old.line(number) if now is None else new.line(now)
            function = (same or cost).costs[0].function
            yield LineChange(
                file, number, now, function, code.strip(), cost.self_ms, None if same is None else same.self_ms
            )
        for number, cost in costs.items():
            if number not in paired:
                function, code = cost.costs[0].function, new.line(number)
                yield LineChange(file, None, number, function, code.strip(), None, cost.self_ms)


def _present(lines: LineMap, line: int, costs: Mapping[int, LineCost]) -> int | None:
    """A line's counterpart in the later text; for an edited line only one that ran."""
    edited = lines.edited_line(line)
    return lines.line(line) or (edited if edited in costs else None)


def _source(profile: Profile, file: str) -> SourceText:
    return SourceText(file, profile.texts.get(file, ""))


def _by_line(profile: Profile, file: str) -> Mapping[int, LineCost]:
    return {cost.line: cost for cost in line_costs(profile, file)}


def _operators(before: Profile, after: Profile) -> Iterable[OperatorChange]:
    old, new = _totals(before), _totals(after)
    nothing = (0, 0.0)
    for name in sorted({*old, *new}):
        (calls_before, before_ms), (calls, after_ms) = old.get(name, nothing), new.get(name, nothing)
        yield OperatorChange(name, calls_before, calls, before_ms, after_ms)


def _totals(profile: Profile) -> Mapping[str, tuple[int, float]]:
    """Calls and own time of every operator."""
    totals: dict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for cost in profile.lines:
        for op in cost.ops:
            calls, own = totals[op.name]
            totals[op.name] = (calls + op.calls, own + op.self_ms)
    return totals
