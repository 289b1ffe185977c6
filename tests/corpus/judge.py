"""One case through the workflow, and what is right and wrong about the answer."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.corpus.case import Case
from tests.corpus.gains import Gains, gains

from forwardlens import workflow
from forwardlens.config import Settings
from forwardlens.model import Edit, Finding, Fix
from forwardlens.runner.request import RunFailedError, RunRequest
from forwardlens.source.edits import OverlappingEditsError, apply_edits
from forwardlens.source.text import SourceText

# A fix is as good as the one made by hand from this part of its speed on.
LEAST_OF_BY_HAND = 0.8


@dataclass(frozen=True)
class Verdict:
    """`answers` are the findings that answer for the case: of the right rule, on a marked line.

    For a look-alike they are those of the mapped rule or on a marked line. `others` are all the rest.
    """

    case: Case
    answers: tuple[Finding, ...] = ()
    others: tuple[Finding, ...] = ()
    # Fixes that were called safe, tried and found to change the result.
    refuted: tuple[Fix, ...] = ()
    gains: Gains | None = None
    error: str = ""

    @property
    def safe_fixes(self) -> list[Fix]:
        return [fix for finding in self.answers for fix in finding.fixes if fix.applicability == "safe"]

    @property
    def fixed(self) -> bool:
        """A safe fix that gave equal outputs; also a slower one, where the gain is not on this machine."""
        return not self.refuted and any(fix.verified is not None for fix in self.safe_fixes)

    @property
    def fast_enough(self) -> bool:
        if not self.fixed:
            return False
        if self.case.speedup is None or self.case.speedup <= 1 or self.gains is None:
            return True
        return self.gains.ours is not None and self.gains.ours >= LEAST_OF_BY_HAND * self.gains.by_hand

    @property
    def wrongly_fixed(self) -> bool:
        return not self.case.positive and bool(self.safe_fixes or self.refuted)

    @property
    def wrongly_flagged(self) -> bool:
        return self.case.must_stay_unflagged and bool(self.answers)


def judge(case: Case) -> Verdict:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / case.file.name
        shutil.copyfile(case.file, file)
        request = RunRequest(f"{file}:build", Path(name), device="cpu")
        never = threading.Event()
        try:
            result = workflow.verify(
                workflow.profile(request, Settings(), lambda _: None, never), lambda _: None, never
            )
        except RunFailedError as error:
            return Verdict(case, error=str(error))
        failed = [error.message for error in result.errors if error.kind == "rule"]
        answers = tuple(finding for finding in result.findings if _answers(case, finding))
        refuted = tuple(fix for f, fix in result.rejected if _answers(case, f) and fix.applicability == "safe")
        measured = None
        if case.positive:
            fixed = _with_fixes(file, result.sources[str(file)].text, answers) if str(file) in result.sources else None
            measured = gains(case, fixed)
        return Verdict(
            case,
            answers,
            tuple(f for f in result.findings if f not in answers),
            refuted,
            measured,
            "; ".join(failed),
        )


def _answers(case: Case, finding: Finding) -> bool:
    lines = range(finding.span.line, finding.span.end_line + 1)
    marked = any(line in case.lines for line in lines)
    if case.positive:
        return marked and finding.rule in case.rules
    return marked or finding.rule in case.rules


def _with_fixes(file: Path, text: str, answers: Sequence[Finding]) -> Path | None:
    """The case with the first safe fix of every answer, as a file; None if there is none."""

    source = SourceText(str(file), text)
    edits: list[Edit] = []
    for finding in answers:
        fix = next((f for f in finding.fixes if f.applicability == "safe" and f.verified is not None), None)
        if fix is None:
            continue
        try:
            apply_edits(source, [*edits, *fix.edits])
        except OverlappingEditsError:
            continue
        edits += fix.edits
    if not edits:
        return None
    after = file.with_name("fixed.py")
    after.write_text(apply_edits(source, edits).text, encoding="utf-8")
    return after
