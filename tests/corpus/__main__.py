"""Judge the cases and write the totals into docs/benchmarks.md."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.__main__ import PAGE, section, with_section
from tests.benchmarks.table import Table
from tests.corpus.case import cases_in
from tests.corpus.judge import LEAST_OF_BY_HAND, Verdict, judge

from forwardlens.model import Finding

ROOT = Path(__file__).parents[2]
# Sections of the page, with the faults that each is about.
CASES = {
    "corpus": ("Real faults and their look-alikes", ROOT.parent / "shared" / "cases"),
    "corpus-blind": ("Faults written without a look at the rules", ROOT / "tests" / "corpus" / "cases"),
}
# One of 24 positives may be missed.
MOST_MISSED = 1 / 24


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.corpus", description=__doc__)
    parser.add_argument("--cases", type=Path, help="another folder with NN_*.py files; the page stays as it is")
    parser.add_argument("numbers", nargs="*", metavar="NN", help="only these cases; the page stays as it is")
    options = parser.parse_args(arguments)
    os.environ["OMP_NUM_THREADS"] = "1"
    folders = CASES if options.cases is None else {"": ("Faults", options.cases)}
    reached = [_judged(name, *about, options.numbers) for name, about in folders.items()]
    return 0 if all(reached) else 1


def _judged(name: str, title: str, folder: Path, numbers: Sequence[str]) -> bool:
    """Judge the cases of a folder; whether they reach the bar. All of a section are written into the page."""
    cases = [case for case in cases_in(folder) if not numbers or case.number in numbers]
    if not cases:
        print(f"skipped: there are no such cases in {folder}; --cases names another folder")
        return True
    verdicts: list[Verdict] = []
    for case in cases:
        verdicts.append(judge(case))
        print(" | ".join(_row(verdicts[-1])), flush=True)
    table = _table(title, verdicts)
    print(f"\n{table.markdown()}")
    if name and not numbers:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(with_section(page, name, section(name, table)), encoding="utf-8")
    return _reached(verdicts)


def _positives(verdicts: Sequence[Verdict]) -> list[Verdict]:
    return [v for v in verdicts if v.case.positive]


def _reached(verdicts: Sequence[Verdict]) -> bool:
    positives = _positives(verdicts)
    missed = sum(not v.answers for v in positives)
    safe = [v for v in positives if v.case.auto_fix_safe]
    return (
        missed <= MOST_MISSED * len(positives)
        and all(v.fast_enough for v in safe)
        and not any(v.wrongly_fixed or v.wrongly_flagged or v.error for v in verdicts)
    )


def _table(title: str, verdicts: Sequence[Verdict]) -> Table:
    positives = _positives(verdicts)
    safe = [v for v in positives if v.case.auto_fix_safe]
    alike = [v for v in verdicts if not v.case.positive]
    silent = [v for v in alike if v.case.must_stay_unflagged]
    totals = (
        f"right rule on a marked line {sum(bool(v.answers) for v in positives)} of {len(positives)}, "
        f"equal fix {sum(v.fixed for v in safe)} of {len(safe)}, "
        f"at least {LEAST_OF_BY_HAND:.0%} of the gain by hand {sum(v.fast_enough for v in safe)} of {len(safe)}, "
        f"look-alikes with a safe fix {sum(v.wrongly_fixed for v in alike)} of {len(alike)}, "
        f"flagged that must not be {sum(v.wrongly_flagged for v in silent)} of {len(silent)}"
    )
    return Table(
        title,
        "the right rule on a marked line for 23 of 24 faults, a safe fix wherever there is one, "
        "no safe fix and no false alarm for look-alikes",
        totals,
        ("case", "kind", "rule", "found on a marked line", "safe fix", "gain", "by hand", "other findings"),
        [_row(v) for v in verdicts],
    )


def _row(verdict: Verdict) -> list[str]:
    case = verdict.case
    name = f"{case.number} {'fault' if case.positive else 'look-alike'}"
    if verdict.error:
        return [name, case.kind, " or ".join(sorted(case.rules)), f"failed: {verdict.error}", "", "", "", ""]
    measured = verdict.gains
    return [
        name,
        case.kind,
        " or ".join(sorted(case.rules)),
        _found(verdict.answers) + ("" if not verdict.wrongly_flagged else " (must not)"),
        _fix(verdict),
        f"{measured.ours:.2f}x" if measured is not None and measured.ours is not None else "",
        f"{measured.by_hand:.2f}x" if measured is not None else "",
        _found(verdict.others),
    ]


def _found(findings: Sequence[Finding]) -> str:
    return ", ".join(f"{finding.rule}:{finding.span.line}" for finding in findings) or "no"


def _fix(verdict: Verdict) -> str:
    outcomes = sorted({fix.verified.outcome if fix.verified else "not tried" for fix in verdict.safe_fixes})
    outcomes += ["refuted"] if verdict.refuted else []
    expected = verdict.case.positive and verdict.case.auto_fix_safe
    return ", ".join(outcomes) or ("missing" if expected else "none")


if __name__ == "__main__":
    raise SystemExit(main())
