"""What a rule is.

A rule is one module under `rules/catalogue/` that defines one `Rule` subclass. It is a pure function of the
profile and the source: `find` needs evidence from the run *and* a shape in the source, and `examples` prove both.
Tests, the pages under docs/rules and `forwardlens rules` are generated from the class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeVar, cast

from forwardlens.model import Evidence, ExpressionCost, Finding, Fix, Profile, Related, Severity, Span
from forwardlens.source.text import SourceText

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Example:
    """A program that a rule must judge right.

    `code` is a whole module with a `build()` that returns `(model, inputs)`. It is profiled for real. Lines that end
    in `#!` must carry this rule's finding, and no other line may. `fixed` is the module after all safe fixes of this
    rule, without the marks; None where the rule only explains. An example without marks must stay clean. One for
    another `device` than the CPU is run where there is such a device.
    """

    name: str
    code: str
    fixed: str | None = None
    device: str = "cpu"


@dataclass(frozen=True, slots=True)
class Match:
    """What `find` yields: a finding without the fields the engine fills in (severity, rule name, cap).

    `share` is the share of the forward that the fault holds, 0 to 1. `severity` is given only where the share does
    not tell how much the fault matters, such as one whose cost is spread over the whole forward.
    """

    span: Span
    message: str
    share: float
    evidence: Evidence
    related: tuple[Related, ...] = ()
    fixes: tuple[Fix, ...] = ()
    severity: Severity | None = None


@dataclass(frozen=True)
class Context:
    """What a rule may look at: one file of one profile, and what other rules find in it."""

    profile: Profile
    source: SourceText
    sources: Mapping[str, SourceText]

    _made: dict[object, object] = field(default_factory=dict[object, object], compare=False, repr=False)

    def matches(self, rule: Rule) -> tuple[Match, ...]:
        """What a rule finds. It is asked once, however many others build on its answer. Raises what the rule raises."""
        return self._once(rule.name, lambda: tuple(rule.find(self)))

    def once(self, make: Callable[[Context], T]) -> T:
        """What `make` makes of this context. It is made once, however many rules ask for it."""
        return self._once(make, lambda: make(self))

    def _once(self, key: object, make: Callable[[], T]) -> T:
        if key not in self._made:
            self._made[key] = make()
        return cast("T", self._made[key])

    @property
    def costs(self) -> Sequence[ExpressionCost]:
        return self.profile.in_file(self.source.path)


class Rule(ABC):
    """One fault: how to see it, why it costs, and what to do.

    The class docstring is the documentation page, in Markdown, with the headings
    `What it does`, `Why it costs`, `When to ignore it` and `Fix safety`.

    `threshold_factor` scales the smallest share worth a finding: 1 is the setting as it is, 0 lets every finding
    through. With `threshold_of_rest` the share is compared with what the costlier findings with a fix leave of the
    forward, for faults that matter once those are gone.

    `covers` names rules that may find the same cause, and where it is the same: at one `expression`, or anywhere in one
    `loop`. One finding is left of the two, with the fixes of either.

    `drops_graph` says that the rule's fixes keep the values and give up the autograd graph on purpose, so that
    gradients are not compared when one is tried.

    `needs_gain` says that what the rule finds is no fault where its fix was tried and is slower.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    highest: ClassVar[Severity] = "warning"
    threshold_factor: ClassVar[float] = 1.0
    threshold_of_rest: ClassVar[bool] = False
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {}
    drops_graph: ClassVar[bool] = False
    needs_gain: ClassVar[bool] = False
    examples: ClassVar[tuple[Example, ...]]

    @abstractmethod
    def find(self, context: Context) -> Iterator[Match]:
        """Yield every occurrence in `context.source`. May raise: the engine contains it."""


__all__ = ["Context", "Example", "Finding", "Match", "Rule"]
