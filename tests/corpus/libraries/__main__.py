"""Profile the models, print what was found in them beside its judgement, and write both into docs/benchmarks.md."""

from __future__ import annotations

import argparse
import importlib.util
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.benchmarks.__main__ import PAGE, section, with_section
from tests.benchmarks.table import Table
from tests.corpus.libraries import judgements
from tests.corpus.libraries.judgements import Judgement
from tests.corpus.libraries.observed import Key, Observed, Run, run
from tests.corpus.libraries.programs import PROGRAMS

LEAST_RIGHT = 0.9
_HEADER = ("rule", "place", "expression", "models", "share", "fix", "right", "why")


@dataclass(frozen=True)
class Row:
    """One finding, in however many models it was seen."""

    key: Key
    seen: tuple[Observed, ...]
    judgement: Judgement | None

    def cells(self) -> list[str]:
        share = max(observed.finding.share for observed in self.seen)
        read = self.judgement
        return [
            self.key.rule,
            self.key.place,
            f"`{_short(self.key.code)}`".replace("|", "\\|"),
            ", ".join(observed.program for observed in self.seen),
            f"{share:.1%}",
            ", ".join(sorted({outcome for observed in self.seen for outcome in _outcomes(observed)})),
            "not read" if read is None else "yes" if read.right else "no",
            read.why if read is not None else "",
        ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.libraries", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these models; the page stays as it is")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    read = judgements.read()
    runs: list[Run] = []
    for program in PROGRAMS:
        if options.names and program.name not in options.names:
            continue
        if importlib.util.find_spec(program.library) is None:
            print(f"{program.name}: skipped, {program.library} is not installed", flush=True)
            continue
        runs.append(run(program))
        _tell(runs[-1], read)
    rows = rows_of(runs, read)
    if not options.names:
        table = _table(runs, rows, read)
        print(f"\n{table.markdown()}")
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_section(page, "libraries", section("libraries", table)), encoding="utf-8")
    return 0 if _reached(runs, rows) else 1


def rows_of(runs: Sequence[Run], read: Mapping[Key, Judgement]) -> list[Row]:
    seen: dict[Key, list[Observed]] = {}
    for done in runs:
        for observed in done.findings:
            seen.setdefault(observed.key, []).append(observed)
    return [Row(key, tuple(found), read.get(key)) for key, found in sorted(seen.items(), key=lambda i: str(i[0]))]


def _tell(done: Run, read: Mapping[Key, Judgement]) -> None:
    took = f"{done.profile.forward.wall_ms.median:.1f} ms" if done.profile is not None else done.error
    print(f"{done.program.name}: {took}, {len(done.findings)} findings", *done.failures, flush=True)
    for observed in done.findings:
        judgement = read.get(observed.key)
        word = "NOT READ" if judgement is None else "right" if judgement.right else "wrong"
        finding = observed.finding
        print(f"  {word}: {observed.key.place}:{finding.span.line} {finding.rule} `{_short(observed.key.code)}`")
        print(f"    {finding.message}")
        for outcome in _outcomes(observed):
            print(f"    fix: {outcome}", flush=True)


def _outcomes(observed: Observed) -> list[str]:
    fixes = (*observed.finding.fixes, *observed.refuted)
    return [f"{f.applicability}, {f.verified.outcome if f.verified is not None else 'not tried'}" for f in fixes]


def _short(code: str) -> str:
    return code if len(code) <= 70 else f"{code[:67]}..."


def _table(runs: Sequence[Run], rows: Sequence[Row], read: Mapping[Key, Judgement]) -> Table:
    right = _right(rows)
    gone = len(read.keys() - {row.key for row in rows})
    refuted = sum(len(observed.refuted) for row in rows for observed in row.seen)
    verdict = (
        f"{len(runs)} models of {len({done.program.library for done in runs})} libraries, "
        f"{len(rows)} findings, {right} right ({right / max(len(rows), 1):.0%}), "
        f"{sum(row.judgement is None for row in rows)} not read yet, {refuted} fixes refuted when tried, "
        f"{gone} findings of earlier runs not seen in this one"
    )
    return Table(
        "Public models, every finding read by a person",
        f"at least {LEAST_RIGHT:.0%} of the findings judged right",
        verdict,
        _HEADER,
        [row.cells() for row in rows],
    )


def _right(rows: Sequence[Row]) -> int:
    return sum(row.judgement is not None and row.judgement.right for row in rows)


def _reached(runs: Sequence[Run], rows: Sequence[Row]) -> bool:
    return (
        _right(rows) >= LEAST_RIGHT * len(rows)
        and all(row.judgement is not None for row in rows)
        and not any(done.error or done.failures for done in runs)
    )


if __name__ == "__main__":
    raise SystemExit(main())
