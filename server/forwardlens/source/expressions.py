"""From the position of a bytecode instruction to the expression a reader would point at."""

from __future__ import annotations

import ast
from functools import lru_cache

from forwardlens.model import Span
from forwardlens.source.text import SourceText

Position = tuple[int, int]


def expression_at(source: SourceText, span: Span, iterates: bool = False) -> Span:
    """The expression that an instruction with position `span` runs.

    The two are the same but for three habits of the compiler: a method call over several lines starts at the method's
    name, the test of an `assert` has the position of the statement, and (`iterates`) taking the iterator of a
    comprehension has the position of the whole comprehension. Where nothing fits, `span` comes back as it is.
    """
    index = _index(source)
    if iterates and (first := index.iterated.get((span.start, span.end))):
        return first
    if (test := index.asserted.get((span.start, span.end))) is not None:
        return test
    starts = index.starts.get(span.end, ())
    if span.start in starts:
        return span
    around = max((start for start in starts if start < span.start), default=None)
    return span if around is None else Span(span.file, *around, *span.end)


class _Index:
    """Where a file's expressions stand: starts by end, tests of `assert`s and first iterables of comprehensions."""

    def __init__(self, source: SourceText) -> None:
        self.starts: dict[Position, set[Position]] = {}
        self.asserted: dict[tuple[Position, Position], Span] = {}
        self.iterated: dict[tuple[Position, Position], Span] = {}
        for node in ast.walk(source.tree) if source.tree is not None else ():
            if isinstance(node, ast.expr):
                span = source.span(node)
                self.starts.setdefault(span.end, set()).add(span.start)
                if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
                    self.iterated[span.start, span.end] = source.span(node.generators[0].iter)
            elif isinstance(node, ast.Assert):
                span = source.span(node)
                self.asserted[span.start, span.end] = source.span(node.test)


@lru_cache(maxsize=64)
def _index(source: SourceText) -> _Index:
    return _Index(source)
