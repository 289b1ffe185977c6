"""An example in other clothes: every way of writing a file that must not show in what a fix does.

The profile moves along with the lines, so that one run of the example serves them all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from forwardlens.model import ExpressionCost, Profile, Span
from forwardlens.source.text import SourceText

# A line of the dressed file, and the number of the line that it was; None for one that was put in.
Line = tuple[str, int | None]
Wear = Callable[[list[str]], list[Line]]


@dataclass(frozen=True)
class Dress:
    name: str
    wear: Wear
    newline: str = "\n"
    bom: bool = False
    # What stands in front of the qualified names of its functions.
    inside: str = ""

    def text(self, code: str) -> str:
        return self.newline.join(line for line, _ in self.wear(code.split("\n")))

    def source(self, path: str, code: str) -> SourceText:
        return SourceText(path, self.text(code), bom=self.bom)

    def profile(self, profile: Profile, source: SourceText) -> Profile:
        """The profile of `source` as if the dressed file had been measured."""
        lines = source.text.split("\n")
        moved = {old: (new, text) for new, (text, old) in enumerate(self.wear(lines), 1) if old is not None}

        def place(line: int, column: int) -> tuple[int, int]:
            new, text = moved[line]
            return new, column + len(text) - len(lines[line - 1])

        def cost(old: ExpressionCost) -> ExpressionCost:
            span = old.span
            where = Span(span.file, *place(*span.start), *place(*span.end))
            return replace(old, span=where, function=f"{self.inside}{old.function}")

        texts = {**profile.texts, source.path: self.text(source.text)}
        costs = tuple(cost(line) for line in profile.lines)
        outermost = tuple((file, f"{self.inside}{name}") for file, name in profile.outermost)
        return replace(profile, lines=costs, texts=texts, outermost=outermost)


def _plain(lines: list[str]) -> list[Line]:
    return [(line, number) for number, line in enumerate(lines, 1)]


def _tabs(lines: list[str]) -> list[Line]:
    def tabbed(line: str) -> str:
        code = line.lstrip(" ")
        return "\t" * ((len(line) - len(code)) // 4) + " " * ((len(line) - len(code)) % 4) + code

    return [(tabbed(line), number) for line, number in _plain(lines)]


def _form_feeds(lines: list[str]) -> list[Line]:
    return [(f"\f{line}" if line.startswith("class ") else line, number) for line, number in _plain(lines)]


def _emoji(lines: list[str]) -> list[Line]:
    return [('"""\N{SPARKLES} \N{SNOWMAN}"""', None), *_before_functions(lines, "# \N{ROCKET}")]


def _decorated(lines: list[str]) -> list[Line]:
    """Not the helpers: what an unknown decorator makes of their results is for no rule to guess."""
    helper = ["", "", "def same(thing):", "    return thing"]
    head = next((number for number, line in enumerate(lines) if line.startswith("class ")), 2)
    found = _before_functions(lines, "@same", only={"forward", "build"})
    return [*found[: head - 2], *((line, None) for line in helper), *found[head - 2 :]]


def _before_functions(lines: list[str], added: str, only: set[str] | None = None) -> list[Line]:
    """`added` on a line of its own above functions (all or those named) and classes, above their decorators."""
    found: list[Line] = []
    heads = _heads(lines, only)
    for line, number in _plain(lines):
        if number in heads:
            found.append((f"{line[: len(line) - len(line.lstrip())]}{added}", None))
        found.append((line, number))
    return found


def _heads(lines: list[str], only: set[str] | None) -> set[int]:
    nodes = list(ast.walk(ast.parse("\n".join(lines))))
    functions = [n for n in nodes if isinstance(n, ast.FunctionDef) and (only is None or n.name in only)]
    heads = [*functions, *(n for n in nodes if isinstance(n, ast.ClassDef))]
    return {min([n.lineno, *(d.lineno for d in n.decorator_list)]) for n in heads}


def _nested(head: str, tail: list[str]) -> Wear:
    def wear(lines: list[str]) -> list[Line]:
        start = next(number for number, line in enumerate(lines) if line.startswith(("class ", "def ", "@")))
        inner: list[Line] = [(f"    {line}" if line else line, n) for line, n in _plain(lines)[start:]]
        return [*_plain(lines)[:start], (head, None), *inner, *((line, None) for line in tail)]

    return wear


IN_MAKE = "make."
DRESSES = (
    Dress("CRLF", _plain, "\r\n"),
    Dress("byte-order mark", _plain, bom=True),
    Dress("tabs", _tabs),
    Dress("form feeds", _form_feeds),
    Dress("emoji", _emoji),
    Dress("decorators", _decorated),
    Dress("in a function", _nested("def make():", ["    return build", "", "", "build = make()", ""]), inside=IN_MAKE),
    Dress("in a class", _nested("class Outer:", ["", "build = Outer.build", ""]), inside="Outer."),
    Dress("in an async function", _nested("async def make():", ["    return build", ""]), "\r\n", inside=IN_MAKE),
)


def problems(source: SourceText, profile: Profile, fix: Callable[[Profile, SourceText], str]) -> Iterator[str]:
    """In which clothes `fix` does anything else than it does to `source` as it is."""
    fixed = fix(profile, source)
    for dress in DRESSES:
        dressed = dress.source(source.path, source.text)
        after, wanted = fix(dress.profile(profile, source), dressed), dress.text(fixed)
        # Further in, a line may become too long and be wrapped: the same code.
        if after != wanted and _code(after) != _code(wanted):
            yield f"{dress.name}: the fixed text differs:\n{after}"
        if after.count("\n") != after.count("\r\n") and dress.newline == "\r\n":
            yield f"{dress.name}: a line end is not as the others"
        if dressed.with_text(after).to_bytes().startswith(b"\xef\xbb\xbf") != dress.bom:
            yield f"{dress.name}: the byte-order mark is not as it was"


def _code(text: str) -> str:
    return ast.dump(ast.parse(text))
