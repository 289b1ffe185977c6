"""How what the rules yield becomes findings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import pytest
from tests.rules import profiles

from forwardlens.model import SMALLER_FINDINGS, Edit, Fix, Severity
from forwardlens.rules import engine
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.source.text import SourceText

TEXT = (
    "a = 1\nb = 2  # forwardlens: ignore[every-line]\nc = 3  # forwardlens: ignore\n"
    "d = 4  # forwardlens: ignore[other]\n"
)


class EveryLine(Rule):
    """Finds every cost."""

    name: ClassVar[str] = "every-line"
    summary: ClassVar[str] = "Every cost"
    examples: ClassVar[tuple[Example, ...]] = ()
    fixes: ClassVar[tuple[Fix, ...]] = ()

    def find(self, context: Context) -> Iterator[Match]:
        for cost in context.costs:
            yield Match(cost.span, "costs", cost.share, {}, (), self.fixes)


class Broken(EveryLine):
    name: ClassVar[str] = "broken"

    def find(self, context: Context) -> Iterator[Match]:
        yield from super().find(context)
        raise ZeroDivisionError("oops")


class Low(EveryLine):
    name: ClassVar[str] = "low"
    highest: ClassVar[Severity] = "hint"


class Rest(EveryLine):
    name: ClassVar[str] = "rest"
    threshold_of_rest: ClassVar[bool] = True


class Fixing(EveryLine):
    name: ClassVar[str] = "fixing"

    def find(self, context: Context) -> Iterator[Match]:
        dearest = max(context.costs, key=lambda cost: cost.share)
        fix = Fix("Do it", "safe", (Edit(context.source.path, (1, 0), (1, 1), "z"),))
        yield Match(dearest.span, "costs", dearest.share, {}, (), (fix,))


def _found(
    text: str,
    shares: dict[str, float],
    *rules: Rule,
    threshold: float = 0.02,
    levels: dict[str, engine.Level] | None = None,
):
    source = SourceText("/w/x.py", text)
    costs = [profiles.cost(source, place, share) for place, share in shares.items()]
    return engine.find(profiles.profile(source, *costs), {source.path: source}, threshold, levels or {}, rules)


def test_costliest_first_and_nothing_below_the_threshold() -> None:
    findings, failures = _found("a\nb\nc\n", {"a": 0.03, "b": 0.5, "c": 0.01}, EveryLine())
    assert [(f.span.line, f.share) for f in findings] == [(2, 0.5), (1, 0.03)]
    assert not failures


@pytest.mark.parametrize(("share", "severity"), [(0.1, "warning"), (0.0999, "info"), (0.02, "info")])
def test_severity_follows_the_share(share: float, severity: str) -> None:
    assert _found("a\n", {"a": share}, EveryLine())[0][0].severity == severity


def test_severity_is_capped_by_the_rule_and_by_the_settings() -> None:
    assert _found("a\n", {"a": 0.5}, Low())[0][0].severity == "hint"
    assert _found("a\n", {"a": 0.5}, EveryLine(), levels={"every-line": "info"})[0][0].severity == "info"
    assert _found("a\n", {"a": 0.5}, EveryLine(), levels={"every-line": "off"})[0] == ()


def test_a_broken_rule_is_reported_once_and_the_others_go_on() -> None:
    findings, failures = _found("a\n", {"a": 0.5}, Broken(), EveryLine())
    assert "every-line" in {finding.rule for finding in findings}
    assert [failure.kind for failure in failures] == ["rule"]
    assert "broken" in failures[0].message
    assert "oops" in failures[0].message


def test_ignore_comments() -> None:
    shares = dict.fromkeys(["a = 1", "b = 2", "c = 3", "d = 4"], 0.5)
    assert [f.span.line for f in _found(TEXT, shares, EveryLine())[0]] == [1, 4]


def test_one_finding_per_place_and_per_edit() -> None:
    findings, _ = _found("a\n", {"a": 0.5}, Fixing(), Fixing())
    assert len(findings) == 1


def test_threshold_of_the_rest() -> None:
    shares = {"a": 0.9, "b": 0.005}
    assert len(_found("a\nb\n", shares, EveryLine(), Fixing())[0]) == 2
    findings, _ = _found("a\nb\n", shares, Fixing(), Rest())
    assert {(f.rule, f.span.line) for f in findings} == {("fixing", 1), ("rest", 1), ("rest", 2)}


def test_most_findings_of_a_file_are_shown_and_the_rest_is_told() -> None:
    names = [f"v{number:03}" for number in range(engine.MOST_PER_FILE + 5)]
    findings, notes = _found("\n".join(names), dict.fromkeys(names, 0.5), EveryLine())
    assert len(findings) == engine.MOST_PER_FILE
    assert [(note.kind, note.file, note.count) for note in notes] == [(SMALLER_FINDINGS, "/w/x.py", 5)]
    assert notes[0].message == "and 5 smaller findings in this file"


STATEMENT = """\
y = call(
    a,
    b,
)  # forwardlens: ignore[low, every-line]
for x in c:  # forwardlens: ignore[every-line]
    DD = x
e = [
    FF,  # forwardlens: ignore[broken]
]
"""


def test_an_ignore_comment_counts_for_its_whole_statement_and_names_several_rules() -> None:
    shares = dict.fromkeys(["call(\n    a,\n    b,\n)", "in c", "DD", "FF"], 0.5)
    found, _ = _found(STATEMENT, shares, EveryLine(), Low())
    assert {(f.rule, f.span.line) for f in found} == {
        *(("low", line) for line in (5, 6, 8)),
        *(("every-line", line) for line in (6, 8)),
    }


class Covering(EveryLine):
    name: ClassVar[str] = "covering"
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {"fixing": "expression", "every-line": "expression"}


class CoveringLoop(EveryLine):
    name: ClassVar[str] = "covering-loop"
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {"inner": "loop"}

    def find(self, context: Context) -> Iterator[Match]:
        yield Match(context.costs[0].span, "the loop costs", 0.9, {})


class Inner(EveryLine):
    name: ClassVar[str] = "inner"

    def find(self, context: Context) -> Iterator[Match]:
        yield Match(context.costs[1].span, "a part of it costs", 0.5, {})


def test_one_cause_found_by_two_rules_is_one_finding_with_the_fix_of_either() -> None:
    (finding,), _ = _found("a\n", {"a": 0.5}, Fixing(), Covering(), EveryLine())
    assert (finding.rule, [fix.title for fix in finding.fixes]) == ("covering", ["Do it"])


def test_the_costlier_finding_with_a_fix_stays_and_says_what_the_other_one_said() -> None:
    class Cheap(Covering):
        def find(self, context: Context) -> Iterator[Match]:
            yield Match(context.costs[0].span, "also for this", 0.1, {})

    (finding,), _ = _found("a\n", {"a": 0.5}, Cheap(), Fixing())
    assert (finding.rule, [related.message for related in finding.related]) == ("fixing", ["also for this"])


def test_one_loop_is_one_finding_where_a_rule_says_so() -> None:
    text = "for x in y:\n    a(x)\n    b(x)\nc(x)\n"
    assert [f.rule for f in _found(text, {"a(x)": 0.9, "b(x)": 0.5}, CoveringLoop(), Inner())[0]] == ["covering-loop"]
    assert len(_found(text, {"a(x)": 0.9, "c(x)": 0.5}, CoveringLoop(), Inner())[0]) == 2


def test_a_covering_rule_that_is_silenced_or_off_covers_nothing() -> None:
    findings, _ = _found("a  # forwardlens: ignore[covering]\n", {"a": 0.5}, Covering(), EveryLine())
    assert [finding.rule for finding in findings] == ["every-line"]
    findings, _ = _found("a\n", {"a": 0.5}, Covering(), EveryLine(), levels={"covering": "off"})
    assert [finding.rule for finding in findings] == ["every-line"]
