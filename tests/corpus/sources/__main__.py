"""Run every rule on every file of some packages and write how long each took into docs/benchmarks.md."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import libcst
from tests.benchmarks.__main__ import PAGE, section, with_section
from tests.benchmarks.table import Table
from tests.corpus.sources.scan import LEAST_LINES, MOST_MS_PER_THOUSAND_LINES, Timing, scan

from forwardlens.rules import engine

PACKAGES = ("torch", "transformers")


@dataclass
class Totals:
    """One rule over all files so far."""

    ms: float = 0.0
    lines: int = 0
    matches: int = 0
    fixes: int = 0
    worst: Timing | None = None
    # Files of `LEAST_LINES` or more, and those of them over the bar.
    files: int = 0
    slow: int = 0

    def add(self, timing: Timing) -> None:
        self.ms += timing.ms
        self.lines += timing.lines
        self.matches += timing.matches
        self.fixes += timing.fixes
        if timing.lines < LEAST_LINES:
            return
        self.files += 1
        self.slow += timing.is_slow
        if timing.per_thousand_lines > self.most:
            self.worst = timing

    @property
    def mean(self) -> float:
        return 1000 * self.ms / self.lines if self.lines else 0.0

    @property
    def most(self) -> float:
        return self.worst.per_thousand_lines if self.worst is not None else 0.0


@dataclass
class Report:
    files: int = 0
    lines: int = 0
    rules: dict[str, Totals] = field(default_factory=dict[str, Totals])
    problems: list[str] = field(default_factory=list[str])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus.sources", description=__doc__)
    parser.add_argument("--packages", nargs="+", default=PACKAGES)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="one file in N; the page stays as it is")
    parser.add_argument("--jobs", type=int, default=None, metavar="N", help="processes; one per processor if not given")
    options = parser.parse_args(arguments)
    files = list(files_of(options.packages))[:: options.every]
    report = scanned(files, options.jobs)
    table = _table(report, options.packages)
    print(f"\n{table.markdown()}")
    for problem in report.problems:
        print(problem)
    if options.every == 1:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_section(page, "sources", section("sources", table)), encoding="utf-8")
    return 1 if report.problems else 0


def files_of(packages: Iterable[str]) -> Iterator[Path]:
    for name in packages:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or []) if spec is not None else []:
            yield from sorted(Path(folder).rglob("*.py"))


def scanned(files: Sequence[Path], jobs: int | None = None) -> Report:
    """`jobs` processes, as many as the machine has processors if None; times are of the processor, not of the clock."""
    report = Report()
    with ProcessPoolExecutor(jobs, initializer=_warm_up) as pool:
        # One kind of run per file, all kinds over the files.
        for number, found in enumerate(pool.map(scan, files, range(len(files)), chunksize=4)):
            if found is None:
                continue
            report.files += 1
            report.lines += found.lines
            report.problems += found.problems
            for timing in found.timings:
                report.rules.setdefault(timing.rule, Totals()).add(timing)
            if number % 100 == 99:
                print(f"{number + 1} of {len(files)} files, {len(report.problems)} problems", flush=True)
    return report


def _warm_up() -> None:
    """What is loaded once per process is no rule's time."""
    engine.catalogue()
    libcst.parse_expression("x")


def _table(report: Report, packages: Iterable[str]) -> Table:
    slowest = max((totals.mean for totals in report.rules.values()), default=0.0)
    slow = sum(totals.slow for totals in report.rules.values())
    files = sum(totals.files for totals in report.rules.values())
    return Table(
        f"Every rule on the source of {' and '.join(packages)}",
        f"no rule raises, no fix breaks a file, no rule takes more than {MOST_MS_PER_THOUSAND_LINES:.0f} ms for "
        "1,000 lines, without costs and with made-up ones on every expression",
        f"{report.files:,} files of {report.lines:,} lines, {len(report.problems)} problems; the slowest rule takes "
        f"{slowest:.1f} ms of processor time for 1,000 lines; {slow:,} of {files:,} looks of a rule at a file of "
        f"{LEAST_LINES} lines or more took more than the bar, each of three times",
        ("rule", "ms for 1,000 lines", "on the slowest file", "that file", "findings", "fixes"),
        [
            (name, f"{totals.mean:.2f}", f"{totals.most:.1f}", _name(totals.worst), totals.matches, totals.fixes)
            for name, totals in sorted(report.rules.items(), key=lambda item: -item[1].mean)
        ],
    )


def _name(timing: Timing | None) -> str:
    if timing is None:
        return ""
    parts = Path(timing.file).parts
    return "/".join(parts[parts.index("site-packages") + 1 :] if "site-packages" in parts else parts[-2:])


if __name__ == "__main__":
    raise SystemExit(main())
