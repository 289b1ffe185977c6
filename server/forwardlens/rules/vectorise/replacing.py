"""The lines that take a loop's place, with the comments that were in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence

from forwardlens.model import Edit
from forwardlens.rules.evidence import Sites
from forwardlens.rules.loops import Loop
from forwardlens.source.rewrite import FORM_FEED, edit_between, offsets, replace_statements


def replace_loop(sites: Sites, node: ast.For | ast.While, loop: Loop, lines: Sequence[tuple[ast.stmt, str]]) -> Edit:
    """Put `lines` in the loop's place. Its comments stay, behind or above the line that replaces their statement."""
    source = sites.source
    texts: dict[ast.stmt, list[str]] = {}
    for statement, text in lines:
        texts.setdefault(statement, []).append(text)
    result: list[str] = []
    done = offsets(source, node)[0]
    for statement in loop.body:
        start, end = offsets(source, statement)
        result += _comments(source.text[done:start])
        done = source.offset(statement.end_lineno or 0, len(source.line(statement.end_lineno or 0)))
        inner, behind = _comments(source.text[start:end]), _comments(source.text[end:done])
        own = [row for text in texts.get(statement, []) for row in text.split("\n")]
        if own and behind:
            result += [*inner, *own[:-1], f"{own[-1]}  {behind[0]}"]
        else:
            result += [*inner, *behind, *own]
    end = source.offset(node.end_lineno or 0, len(source.line(node.end_lineno or 0)))
    result += _comments(source.text[done:end])
    done = max(done, end)
    if result:
        first = source.offset(node.lineno, 0) + len(source.indentation(node.lineno))
        indent = source.indentation(node.lineno).replace(FORM_FEED, "")
        return edit_between(source, first, done, f"{source.newline}{indent}".join(result))
    return replace_statements(sites.tree, [node], [])


def _comments(text: str) -> list[str]:
    """What looks like a comment in a stretch of text, one for each of its lines."""
    return [line[line.index("#") :].rstrip() for line in text.splitlines() if "#" in line]


def without_statement(sites: Sites, statement: ast.stmt) -> Edit:
    """Remove a statement with its line, or leave its comment there."""
    source = sites.source
    _, end = offsets(source, statement)
    line, column = source.position(end)
    rest = source.line(line)[column:]
    if "#" in rest:
        start, _ = offsets(source, statement)
        return edit_between(source, start, end + rest.index("#"), "")
    return replace_statements(sites.tree, [statement], [])


def without_unread(
    lines: Sequence[tuple[ast.stmt, str]], edits: Sequence[Edit], temporaries: Iterable[str]
) -> list[tuple[ast.stmt, str]]:
    """Leave out assignments to `temporaries` of the loop that nothing reads any more. None is read after the loop."""
    kept = list(lines)
    for name in sorted(temporaries):
        own = [item for item in kept if re.match(rf"{re.escape(name)} = ", item[1])]
        rest = [*(text for statement, text in kept if (statement, text) not in own), *(edit.text for edit in edits)]
        if len(own) == 1 and not any(re.search(rf"\b{re.escape(name)}\b", text) for text in rest):
            kept.remove(own[0])
    # What was left out may have been the last reader of another one.
    return kept if len(kept) == len(lines) else without_unread(kept, edits, temporaries)


def statement_in(loop: Loop, sites: Sites, statement: ast.stmt) -> ast.stmt:
    """The statement of a round that another one is in, or is itself."""
    return next(s for s in (statement, *sites.tree.ancestors(statement)) if isinstance(s, ast.stmt) and s in loop.body)


def indent_unit(sites: Sites, node: ast.For | ast.While) -> str:
    """What a level of indentation is in this file."""
    inside = sites.source.indentation(node.body[0].lineno).replace(FORM_FEED, "")
    outside = sites.source.indentation(node.lineno).replace(FORM_FEED, "")
    return inside.removeprefix(outside) if node.body[0].lineno > node.lineno and inside != outside else "    "
