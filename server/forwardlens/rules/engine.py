"""Runs the rules over a profile and turns what they yield into findings."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Literal

from forwardlens.model import Edit, Finding, Profile, Related, RunError, Severity
from forwardlens.rules import catalogue as catalogue_package
from forwardlens.rules.contract import Context, Match, Rule
from forwardlens.source.text import SourceText

Level = Literal["off", "hint", "info", "warning"]

# A fault that holds a tenth of the forward is worth a warning.
WARNING_SHARE = 0.10
# More findings than this in one file hide each other.
MOST_PER_FILE = 30

_ORDER: tuple[Severity, ...] = ("hint", "info", "warning")
_IGNORE = re.compile(r"#\s*forwardlens:\s*ignore(?:\[(?P<rules>[^\]]*)\])?")


@cache
def catalogue() -> tuple[Rule, ...]:
    """Every rule, by name. A module anywhere under `rules/catalogue/` takes part by being there."""
    found: list[Rule] = []
    for info in pkgutil.walk_packages(catalogue_package.__path__, f"{catalogue_package.__name__}."):
        module = importlib.import_module(info.name)
        for _, member in inspect.getmembers(module, inspect.isclass):
            if issubclass(member, Rule) and not inspect.isabstract(member) and member.__module__ == info.name:
                found.append(member())
    return tuple(sorted(found, key=lambda rule: rule.name))


def rule_names() -> tuple[str, ...]:
    return tuple(rule.name for rule in catalogue())


def rule_named(name: str) -> Rule:
    """The rule called `name`. Raises `KeyError`."""
    return {rule.name: rule for rule in catalogue()}[name]


def find(
    profile: Profile,
    sources: Mapping[str, SourceText],
    threshold: float,
    levels: Mapping[str, Level],
    rules: Iterable[Rule] | None = None,
) -> tuple[tuple[Finding, ...], tuple[RunError, ...]]:
    """What the rules find in the files of a profile, costliest first, and which rules failed.

    `threshold` is the smallest share of the forward worth a finding. `levels` caps a rule's severity or turns it
    off. A rule that raises is left out from there on and reported once; the others go on.
    """
    matches: list[tuple[Rule, SourceText, Match]] = []
    failures: list[RunError] = []
    files = sorted(_measured_files(profile) & sources.keys())
    for rule in catalogue() if rules is None else rules:
        if levels.get(rule.name) == "off":
            continue
        try:
            for path in files:
                context = Context(profile, sources[path], sources, threshold * rule.threshold_factor)
                matches += [(rule, sources[path], match) for match in rule.find(context)]
        except Exception as error:
            # A broken rule must not take the others with it.
            failures.append(_failure(rule, error))
    matches = _with_taken_fixes(matches)
    matches.sort(key=lambda item: (-item[2].share, item[2].span, item[0].name))
    kept = [
        _finding(rule, match, levels)
        for rule, source, match in _worthwhile(_distinct(matches), threshold)
        if not _ignored(source, match, rule.name)
    ]
    capped, notes = _capped(kept)
    return tuple(capped), (*failures, *notes)


def _measured_files(profile: Profile) -> set[str]:
    """Code that `torch.compile` wrote has no costs in the file it came from, only breaks."""
    breaks = () if profile.graphs is None else profile.graphs.breaks
    return {cost.span.file for cost in profile.lines} | {graph_break.span.file for graph_break in breaks}


def _failure(rule: Rule, error: Exception) -> RunError:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = f" (line {trace.tb_lineno})" if trace is not None else ""
    return RunError("rule", f"the rule {rule.name} failed and was left out: {type(error).__name__}: {error}{where}")


def _with_taken_fixes(matches: list[tuple[Rule, SourceText, Match]]) -> list[tuple[Rule, SourceText, Match]]:
    """A fault that goes away with the fix of another one at the same expression is one finding with it.

    It stands under the name of the one that holds more of the forward; what the other one says is kept beside it.
    """
    merged = list(matches)
    for taking in matches:
        giving = next((m for m in merged if taking[0].takes_fixes and _fixes_the_same(m, taking)), None)
        if giving is not None:
            merged.remove(giving)
            merged.remove(taking)
            merged.append(_as_one(taking, giving))
    return merged


def _fixes_the_same(one: tuple[Rule, SourceText, Match], other: tuple[Rule, SourceText, Match]) -> bool:
    mine, place = one[2], other[2].span
    nested = mine.span.contains(place) or place.contains(mine.span)
    fitting = not one[0].takes_fixes and not one[0].drops_graph
    return fitting and nested and any(fix.applicability == "safe" for fix in mine.fixes)


def _as_one(
    taking: tuple[Rule, SourceText, Match], giving: tuple[Rule, SourceText, Match]
) -> tuple[Rule, SourceText, Match]:
    if giving[2].share > taking[2].share:
        said = Related(taking[2].span, taking[2].message)
        return giving[0], giving[1], replace(giving[2], related=(*giving[2].related, said))
    return taking[0], taking[1], replace(taking[2], fixes=giving[2].fixes)


def _distinct(matches: Iterable[tuple[Rule, SourceText, Match]]) -> Iterator[tuple[Rule, SourceText, Match]]:
    """One finding per cause: not the same place twice for a rule, and not the same edits twice for any."""
    seen: set[object] = set()
    for rule, source, match in matches:
        edits: tuple[Edit, ...] = tuple(edit for fix in match.fixes for edit in fix.edits)
        keys = {(rule.name, match.span), edits} if edits else {(rule.name, match.span)}
        if not keys & seen:
            seen |= keys
            yield rule, source, match


def _worthwhile(
    matches: Iterable[tuple[Rule, SourceText, Match]], threshold: float
) -> Iterator[tuple[Rule, SourceText, Match]]:
    """Those that hold enough of the forward, or of what the costlier ones will leave of it."""
    rest = 1.0
    for rule, source, match in matches:
        least = threshold * rule.threshold_factor * (max(rest, 0.0) if rule.threshold_of_rest else 1.0)
        if match.share >= least:
            yield rule, source, match
            if any(fix.applicability == "safe" for fix in match.fixes):
                rest -= match.share


def _finding(rule: Rule, match: Match, levels: Mapping[str, Level]) -> Finding:
    wanted = match.severity or ("warning" if match.share >= WARNING_SHARE else "info")
    level = levels.get(rule.name, "warning")
    caps: list[Severity] = [wanted, rule.highest, *([level] if level != "off" else [])]
    severity: Severity = min(caps, key=_ORDER.index)
    return Finding(
        rule.name, severity, match.message, match.span, match.share, match.evidence, match.related, match.fixes
    )


def _ignored(source: SourceText, match: Match, name: str) -> bool:
    """Whether `# forwardlens: ignore[name]`, or `ignore` for all rules, stands on a line of the finding's ends."""
    for line in {match.span.line, match.span.end_line}:
        for comment in _IGNORE.finditer(source.line(line)):
            rules = comment["rules"]
            if rules is None or name in {rule.strip() for rule in rules.split(",")}:
                return True
    return False


def _capped(findings: Iterable[Finding]) -> tuple[list[Finding], list[RunError]]:
    kept: list[Finding] = []
    count: dict[str, int] = {}
    for finding in findings:
        file = finding.span.file
        count[file] = count.get(file, 0) + 1
        if count[file] <= MOST_PER_FILE:
            kept.append(finding)
    notes = [
        RunError("note", f"{number - MOST_PER_FILE} less costly findings in this file are not shown", file)
        for file, number in count.items()
        if number > MOST_PER_FILE
    ]
    return kept, notes
