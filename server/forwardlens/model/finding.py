"""What was found and what can be done about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from forwardlens.model.location import Span

Severity = Literal["hint", "info", "warning"]
Applicability = Literal["safe", "unsafe", "display"]
Outcome = Literal["equal", "differs", "raises", "slower", "no-gain"]
Evidence = Mapping[str, str | int | float | bool]


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the text between two (line, column) positions of a file; the end is exclusive."""

    file: str
    start: tuple[int, int]
    end: tuple[int, int]
    text: str


@dataclass(frozen=True, slots=True)
class Verification:
    """What happened when a fix was run against the original."""

    outcome: Outcome
    max_abs_diff: float | None = None
    before_ms: float | None = None
    after_ms: float | None = None
    speedup: float | None = None
    speedup_low: float | None = None
    speedup_high: float | None = None
    pairs: int = 0
    message: str | None = None

    @property
    def refuted(self) -> bool:
        """The program gave something else, or nothing."""
        return self.outcome in ("differs", "raises")

    @property
    def holds(self) -> bool:
        """Equal and not slower. A change without gain here is one: its cost may only show on another device."""
        return self.outcome in ("equal", "no-gain")


@dataclass(frozen=True, slots=True)
class Fix:
    """An edit that removes the cause of a finding.

    `reason` says why a fix is not `safe`; a safe one has none. A `slow_to_try` fix is only tried when it is asked for,
    because that takes tens of seconds.
    """

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...]
    reason: str | None = None
    verified: Verification | None = None
    slow_to_try: bool = False

    @property
    def proven(self) -> bool:
        """It was run, its outputs were equal and it was faster."""
        return self.verified is not None and self.verified.outcome == "equal"


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains a finding, such as the loop around it."""

    span: Span
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    rule: str
    severity: Severity
    message: str
    span: Span
    share: float
    evidence: Evidence
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()
