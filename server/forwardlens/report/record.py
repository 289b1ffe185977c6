"""What every report is made from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from forwardlens.model import Evidence, Finding, Fix, Profile, RunError, Span
from forwardlens.source.paths import relative_name
from forwardlens.source.text import SourceText


@dataclass(frozen=True, slots=True)
class Report:
    """A profile, its findings with their tried fixes, and the texts they speak about.

    `rejected` are fixes that changed what the program gives when they were tried: told, not offered.
    """

    workspace: Path
    profile: Profile
    findings: tuple[Finding, ...]
    sources: Mapping[str, SourceText] = field(default_factory=dict[str, SourceText])
    errors: tuple[RunError, ...] = ()
    rejected: tuple[tuple[Finding, Fix], ...] = ()

    def rejected_for(self, finding: Finding) -> tuple[Fix, ...]:
        return tuple(fix for owner, fix in self.rejected if (owner.rule, owner.span) == (finding.rule, finding.span))

    def name_of(self, file: str) -> str:
        return report_name(file, self.workspace)

    def code_of(self, span: Span) -> str:
        """The measured text of a span, its first line; empty where it is not known."""
        source = self.sources.get(span.file)
        return "" if source is None else source.slice(span).partition("\n")[0].strip()


def report_name(file: str, workspace: Path) -> str:
    """A file as reports name it: relative to the workspace if it is in there, with forward slashes."""
    return Path(relative_name(file, str(workspace))).as_posix()


def plain_evidence(evidence: Evidence) -> dict[str, str | float | bool | None]:
    """Evidence as JSON values, which know neither infinity nor NaN."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in evidence.items()
    }
