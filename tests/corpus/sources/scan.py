"""One file under every rule: what each took, and what is wrong with what it gave."""

from __future__ import annotations

import ast
import builtins
import gc
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.corpus.sources.synthetic import CIRCUMSTANCES, Circumstances, profile_of, profile_with
from tests.rules.harness import wrong_words

from forwardlens.model import Fix, Profile
from forwardlens.rules import engine
from forwardlens.rules.contract import Context, Match, Rule
from forwardlens.source.edits import OverlappingEditsError, apply_edits
from forwardlens.source.text import SourceText
from forwardlens.source.tree import tree_of

MOST_MS_PER_THOUSAND_LINES = 50.0
# A shorter file says more about the clock than about a rule.
LEAST_LINES = 200
_LOOKS_AGAIN = 2


@dataclass(frozen=True)
class Timing:
    """Milliseconds of processor time that one rule took on one file."""

    rule: str
    file: str
    lines: int
    ms: float
    matches: int = 0
    fixes: int = 0

    @property
    def per_thousand_lines(self) -> float:
        return 1000 * self.ms / self.lines

    @property
    def is_slow(self) -> bool:
        return self.lines >= LEAST_LINES and self.per_thousand_lines > MOST_MS_PER_THOUSAND_LINES


@dataclass(frozen=True)
class Scanned:
    lines: int
    timings: tuple[Timing, ...]
    problems: tuple[str, ...]


def scan(file: Path, kind: int, rules: Sequence[Rule] | None = None) -> Scanned | None:
    """`file` without costs, then with those of the made-up run number `kind`. None if Python itself cannot read it."""
    try:
        source = SourceText.read(file)
    except (OSError, SyntaxError, UnicodeDecodeError):
        return None
    # Parsing is shared by all rules and belongs to none.
    if tree_of(source) is None:
        return None
    timings: list[Timing] = []
    slow: list[tuple[Timing, Rule, Profile]] = []
    problems: list[str] = []
    for profile in _profiles(source, kind):
        empty = not profile.lines
        context = _TimedContext(profile, source, {source.path: source})
        for rule in engine.catalogue() if rules is None else rules:
            try:
                took, matches = _look(context, rule)
            except Exception as error:
                problems.append(f"{rule.name} raises on {file}: {_where(error)}")
                continue
            fixes = [fix for match in matches for fix in match.fixes]
            timing = Timing(rule.name, str(file), source.line_count, took, len(matches), len(fixes))
            timings.append(timing)
            if timing.is_slow:
                slow.append((timing, rule, profile))
            if empty and matches:
                problems.append(f"{rule.name} finds something in {file} without any cost")
            problems += [f"{rule.name} at {file}:{m.span.line}: {p}" for m in matches for p in _wrong(source, m)]
    for timing, rule, profile in slow:
        again = min(_look_again(source, rule, profile) for _ in range(_LOOKS_AGAIN))
        timings[timings.index(timing)] = replace(timing, ms=min(timing.ms, again))
    return Scanned(source.line_count, tuple(timings), tuple(problems))


@dataclass(frozen=True)
class _TimedContext(Context):
    """Knows the processor time of each rule, without that of the rules which it asked what they find."""

    spent: dict[str, float] = field(default_factory=dict[str, float])

    def matches(self, rule: Rule) -> tuple[Match, ...]:
        others, start = sum(self.spent.values()), time.process_time_ns()
        found = super().matches(rule)
        took = (time.process_time_ns() - start) / 1e6
        self.spent.setdefault(rule.name, took - (sum(self.spent.values()) - others))
        return found


def _look(context: _TimedContext, rule: Rule) -> tuple[float, Sequence[Match]]:
    """Milliseconds of processor time, and what was found."""
    with _uncollected():
        matches = context.matches(rule)
        return context.spent[rule.name], matches


def _look_again(source: SourceText, rule: Rule, profile: Profile) -> float:
    """The time of a look that knows nothing of the one before: a machine that paused in one does not in each."""
    tree_of.cache_clear()
    source = replace(source)
    tree_of(source)
    return _look(_TimedContext(profile, source, {source.path: source}), rule)[0]


@contextmanager
def _uncollected() -> Generator[None]:
    """A search for garbage goes through the trees of all files that were scanned before: it belongs to no rule."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _profiles(source: SourceText, kind: int) -> Iterator[Profile]:
    yield profile_with(source, (), Circumstances())
    yield profile_of(source, CIRCUMSTANCES[kind % len(CIRCUMSTANCES)], kind)


def _where(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}" if trace is not None else "?"
    return f"{type(error).__name__}: {error} ({place})"


def _wrong(source: SourceText, match: Match) -> Iterator[str]:
    yield from wrong_words(source, match)
    for fix in match.fixes:
        yield from (f"fix `{fix.title}`: {problem}" for problem in _wrong_fix(source, fix))


def _wrong_fix(source: SourceText, fix: Fix) -> Iterator[str]:
    if not fix.edits:
        return
    if any(edit.file != source.path for edit in fix.edits):
        yield "edits a file that it was not given"
        return
    try:
        after = apply_edits(source, list(fix.edits))
    except OverlappingEditsError:
        yield "its edits overlap"
        return
    try:
        compile(after.text, source.path, "exec", dont_inherit=True)
    except SyntaxError as error:
        yield f"the file no longer compiles: {error.msg}, line {error.lineno}: {(error.text or '').strip()!r}"
        return
    new = _unbound(ast.parse(after.text)) - _unbound(source.tree)
    if new:
        yield f"reads {', '.join(sorted(new))}, which nothing binds"
    if "\r" in after.text and "\r" not in source.text:
        yield "brings another line end"


def _unbound(module: ast.Module | None) -> set[str]:
    """Names that are read in a module and bound nowhere in it."""
    read: set[str] = set()
    bound: set[str] = set(dir(builtins))
    for node in ast.walk(module) if module is not None else ():
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            bound.add(node.rest)
    return read - bound
