"""Runs the rules over a profile and turns what they yield into findings."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, cast

from forwardlens.model import SMALLER_FINDINGS, Edit, Finding, Profile, Related, RunError, Severity, Span
from forwardlens.rules import catalogue as catalogue_package
from forwardlens.rules.contract import Context, Match, Rule
from forwardlens.source.text import SourceText
from forwardlens.source.tree import Looping, tree_of, walk

Level = Literal["off", "hint", "info", "warning"]

# A fault that holds a tenth of the forward is worth a warning.
WARNING_SHARE = 0.10
# More findings than this in one file hide each other.
MOST_PER_FILE = 30

_ORDER: tuple[Severity, ...] = ("hint", "info", "warning")
_IGNORE = re.compile(r"#\s*forwardlens:\s*ignore(?:\[(?P<rules>[^\]]*)\])?")


@dataclass(frozen=True)
class _Found:
    """What a rule yields, with the rule and the file."""

    rule: Rule
    source: SourceText
    match: Match

    def changed(self, **changes: Any) -> _Found:
        return replace(self, match=replace(self.match, **changes))


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
    found: list[_Found] = []
    failures: list[RunError] = []
    files = sorted(_measured_files(profile) & sources.keys())
    contexts = [Context(profile, sources[path], sources) for path in files]
    for rule in catalogue() if rules is None else rules:
        if levels.get(rule.name) == "off":
            continue
        try:
            for context in contexts:
                found += [_Found(rule, context.source, match) for match in context.matches(rule)]
        except Exception as error:
            # A broken rule must not take the others with it.
            failures.append(_failure(rule, error))
    found = _one_per_cause([item for item in found if not _ignored(item)])
    found.sort(key=lambda item: (-item.match.share, item.match.span, item.rule.name))
    kept = [_finding(item, levels) for item in _worthwhile(_distinct(found), threshold)]
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


def _one_per_cause(found: Sequence[_Found]) -> list[_Found]:
    """Where a rule covers another one at the same place, one finding is left: the covering one, with its fixes or else
    the other's. A covered one that has a fix and holds more of the forward stays, and says what the other one said.
    """
    left = list(found)
    for covering in found:
        covered = [item for item in left if item is not covering and _covers(covering, item)]
        for item in covered if covering in left else ():
            if item.match.share > covering.match.share and _has_safe_fix(item.match):
                said = Related(covering.match.span, covering.match.message)
                left[left.index(item)] = item.changed(related=(*item.match.related, said))
                left.remove(covering)
                break
            left.remove(item)
            if _has_safe_fix(item.match) and not _has_safe_fix(covering.match):
                merged = covering.changed(fixes=(*item.match.fixes, *covering.match.fixes))
                left[left.index(covering)] = covering = merged
    return left


def _covers(covering: _Found, other: _Found) -> bool:
    scope = covering.rule.covers.get(other.rule.name)
    if scope is None or covering.source is not other.source:
        return False
    one, two = covering.match.span, other.match.span
    if scope == "expression":
        return one.contains(two) or two.contains(one)
    return _loop(covering) is not None and _loop(covering) is _loop(other) and not _has_safe_fix(other.match)


def _loop(found: _Found) -> Looping | None:
    """The innermost loop around what was found."""
    tree = tree_of(found.source)
    nodes = () if tree is None else tree.at(found.match.span)
    return next(tree.loops(nodes[0]), None) if tree is not None and nodes else None


def _has_safe_fix(match: Match) -> bool:
    return any(fix.applicability == "safe" for fix in match.fixes)


def _distinct(found: Iterable[_Found]) -> Iterator[_Found]:
    """Not the same place twice for a rule, and not the same edits twice for any."""
    seen: set[object] = set()
    for item in found:
        place = (item.rule.name, item.match.span)
        edits: tuple[Edit, ...] = tuple(edit for fix in item.match.fixes for edit in fix.edits)
        keys = {place, edits} if edits else {place}
        if not keys & seen:
            seen |= keys
            yield item


def _worthwhile(found: Iterable[_Found], threshold: float) -> Iterator[_Found]:
    """Those that hold enough of the forward, or of what the costlier ones will leave of it."""
    rest = 1.0
    for item in found:
        rule, share = item.rule, item.match.share
        least = threshold * rule.threshold_factor * (max(rest, 0.0) if rule.threshold_of_rest else 1.0)
        if share >= least:
            yield item
            if _has_safe_fix(item.match):
                rest -= share


def _finding(item: _Found, levels: Mapping[str, Level]) -> Finding:
    rule, match = item.rule, item.match
    wanted = match.severity or ("warning" if match.share >= WARNING_SHARE else "info")
    level = levels.get(rule.name, "warning")
    caps: list[Severity] = [wanted, rule.highest, *([level] if level != "off" else [])]
    severity: Severity = min(caps, key=_ORDER.index)
    return Finding(
        rule.name, severity, match.message, match.span, match.share, match.evidence, match.related, match.fixes
    )


def _ignored(item: _Found) -> bool:
    """Whether `# forwardlens: ignore[name]`, or `ignore` for all rules, stands on a line of the finding's statement.

    Of a statement that holds others, only the lines in front of those count.
    """
    if not _IGNORE.search(item.source.text):
        return False
    for line in _statement_lines(item.source, item.match.span):
        for comment in _IGNORE.finditer(item.source.line(line)):
            rules = comment["rules"]
            if rules is None or item.rule.name in {rule.strip() for rule in rules.split(",")}:
                return True
    return False


def _statement_lines(source: SourceText, span: Span) -> Iterable[int]:
    nodes = [] if source.tree is None else [node for node in walk(source.tree) if isinstance(node, ast.stmt)]
    around = [node for node in nodes if source.span(node).contains(span)]
    if not around:
        return {span.line, span.end_line}
    statement = max(around, key=lambda node: (node.lineno, node.col_offset))
    inner = cast("list[ast.stmt]", getattr(statement, "body", []))
    last = max(statement.lineno, inner[0].lineno - 1) if inner else (statement.end_lineno or statement.lineno)
    return {span.line, span.end_line, *range(statement.lineno, last + 1)}


def _capped(findings: Iterable[Finding]) -> tuple[list[Finding], list[RunError]]:
    kept: list[Finding] = []
    count: dict[str, int] = {}
    for finding in findings:
        file = finding.span.file
        count[file] = count.get(file, 0) + 1
        if count[file] <= MOST_PER_FILE:
            kept.append(finding)
    notes = [
        RunError(SMALLER_FINDINGS, _smaller(number - MOST_PER_FILE), file, count=number - MOST_PER_FILE)
        for file, number in count.items()
        if number > MOST_PER_FILE
    ]
    return kept, notes


def _smaller(number: int) -> str:
    return f"and {number} smaller finding{'' if number == 1 else 's'} in this file"
