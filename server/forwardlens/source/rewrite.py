"""Turning changed syntax into the smallest edits of the original text.

Nodes are found with `ast`, whose positions are exact and fast; what changes inside one is done on that node's text
alone with libcst, which keeps comments and spacing. Everything outside the edits stays byte for byte.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence

import libcst as cst

from forwardlens.model import Edit
from forwardlens.source.edits import OverlappingEditsError, apply_edits
from forwardlens.source.text import SourceText
from forwardlens.source.tree import Tree

FORM_FEED = "\f"
Node = ast.expr | ast.stmt | ast.keyword
_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def edit_between(source: SourceText, start: int, end: int, text: str) -> Edit:
    """Replace `source.text[start:end]`, leaving out the words that the old and the new text share at both ends."""
    old = source.text[start:end]
    head = 0
    while head < min(len(old), len(text)) and old[head] == text[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(text)) - head and old[-1 - tail] == text[-1 - tail]:
        tail += 1
    while _within_word(old, head) or _within_word(text, head):
        head -= 1
    while _within_word(old, len(old) - tail) or _within_word(text, len(text) - tail):
        tail -= 1
    # A line end of two characters must not be cut in half.
    if head and source.text[start + head - 1] == "\r":
        head -= 1
    if tail and old[len(old) - tail] == "\n":
        tail -= 1
    return Edit(
        source.path,
        source.position(start + head),
        source.position(end - tail),
        text[head : len(text) - tail],
    )


def _within_word(text: str, at: int) -> bool:
    return all(c.isalnum() or c == "_" for c in (text[at - 1 : at], text[at : at + 1]))


def offsets(source: SourceText, node: Node) -> tuple[int, int]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef) and node.decorator_list:
        start = node.decorator_list[0]
        return source.offset(*source.span(start).start), source.offset(*source.span(node).end)
    span = source.span(node)
    return source.offset(*span.start), source.offset(*span.end)


def replace_node(source: SourceText, node: Node, text: str) -> Edit:
    return edit_between(source, *offsets(source, node), text)


def splice(source: SourceText, node: Node, parts: Mapping[ast.expr, str]) -> str:
    """The text of `node` with some of its descendants' texts replaced."""
    begin, end = offsets(source, node)
    pieces: list[str] = []
    done = begin
    for (start, stop), text in sorted((offsets(source, child), text) for child, text in parts.items()):
        pieces += (source.text[done:start], text)
        done = stop
    return "".join([*pieces, source.text[done:end]])


def transform(source: SourceText, node: ast.expr, change: Callable[[cst.BaseExpression], cst.BaseExpression]) -> Edit:
    """The edit that replaces an expression by what `change` makes of it."""
    return replace_node(source, node, change_text(source.slice(source.span(node)), change))


def change_text(text: str, change: Callable[[cst.BaseExpression], cst.BaseExpression]) -> str:
    """`text` of an expression after `change`. Works inside parentheses, so the text may have many lines."""
    opened = cst.parse_expression(f"({text})")
    inner = opened.with_changes(lpar=opened.lpar[1:], rpar=opened.rpar[:-1])
    newline = next((end for end in ("\r\n", "\n", "\r") if end in text), "\n")
    return cst.Module(body=[], default_newline=newline).code_for_node(change(inner))


def without_argument(call: cst.Call, position: int | None, name: str) -> cst.Call:
    """`call` without the argument at `position` or of keyword `name`."""
    kept = [
        arg
        for index, arg in enumerate(call.args)
        if not (arg.keyword.value == name if arg.keyword else index == position)
    ]
    if kept and len(kept) < len(call.args) and kept[-1] is not call.args[-1]:
        kept[-1] = kept[-1].with_changes(comma=call.args[-1].comma)
    return call.with_changes(args=kept)


def with_keyword(call: cst.Call, name: str, value: str) -> cst.Call:
    """`call` with `name=value` as its last argument, in the spacing of a plain call."""
    added = cst.Arg(
        keyword=cst.Name(name),
        value=cst.parse_expression(value),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    args = list(call.args)
    if args and isinstance(args[-1].comma, cst.Comma):
        return call.with_changes(args=_with_another_line(call, args, added))
    if args:
        args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
    return call.with_changes(args=[*args, added])


def _with_another_line(call: cst.Call, args: list[cst.Arg], added: cst.Arg) -> list[cst.Arg]:
    """`added` behind arguments that end in a comma: on a line of its own, like them. Comments stay with theirs."""
    last = args[-1]
    between = call.whitespace_before_args
    if len(args) > 1 and isinstance(args[-2].comma, cst.Comma):
        between = args[-2].comma.whitespace_after
    tail = last.comma.whitespace_after if isinstance(last.comma, cst.Comma) else cst.SimpleWhitespace("")
    if isinstance(between, cst.ParenthesizedWhitespace) and isinstance(tail, cst.ParenthesizedWhitespace):
        between = between.with_changes(first_line=tail.first_line)
        tail = tail.with_changes(first_line=cst.TrailingWhitespace())
    before = last.with_changes(comma=cst.Comma(whitespace_after=between))
    return [*args[:-1], before, added.with_changes(comma=cst.Comma(whitespace_after=tail))]


def replace_statements(tree: Tree, statements: Sequence[ast.stmt], lines: Sequence[str]) -> Edit:
    """Put `lines` in place of neighbouring statements, in their indentation and the file's line ends.

    With no lines the statements go away together with their own lines.
    """
    source = tree.source
    start, _ = offsets(source, statements[0])
    _, end = offsets(source, statements[-1])
    indent = source.indentation(source.position(start)[0]).replace(FORM_FEED, "")
    if lines:
        return edit_between(source, start, end, f"{source.newline}{indent}".join(lines))
    first, _ = source.position(start)
    last, _ = source.position(end)
    begin = source.offset(first, 0)
    stop = source.offset(last + 1, 0) if last < source.line_count else len(source.text)
    return edit_between(source, begin, stop, "")


def insert_before(tree: Tree, statement: ast.stmt, lines: Sequence[str]) -> Edit:
    """Put `lines` in front of a statement, in its indentation."""
    source = tree.source
    start, _ = offsets(source, statement)
    line, column = source.position(start)
    indent = source.indentation(line).replace(FORM_FEED, "")
    text = "".join(f"{text}{source.newline}{indent}" for text in lines)
    return Edit(source.path, (line, column), (line, column), text)


def insert_decorator(tree: Tree, function: ast.FunctionDef | ast.AsyncFunctionDef, decorator: str) -> Edit:
    """Put a decorator directly above `def`, below those that are there."""
    source = tree.source
    line = function.lineno
    column = len(source.indentation(line))
    text = f"{decorator}{source.newline}{source.indentation(line).replace(FORM_FEED, '')}"
    return Edit(source.path, (line, column), (line, column), text)


def stands_alone(tree: Tree, statement: ast.stmt) -> bool:
    """Whether no other code shares a line with `statement`, so that its lines are its own."""
    source = tree.source
    start, end = offsets(source, statement)
    first, column = source.position(start)
    last, end_column = source.position(end)
    before = source.line(first)[:column]
    after = source.line(last)[end_column:].strip(" \t\f")
    return not before.strip(" \t\f") and (not after or after.startswith("#"))


def has_comment(source: SourceText, start: int, end: int) -> bool:
    """Whether a comment starts in `source.text[start:end]`. A `#` inside a string counts too, to be careful."""
    return "#" in source.text[start:end]


def checked(source: SourceText, edits: Iterable[Edit]) -> tuple[Edit, ...] | None:
    """`edits` in file order if they fit together and the result parses; None if not."""
    ordered = tuple(sorted(edits, key=lambda edit: (edit.start, edit.end)))
    try:
        after = apply_edits(source, ordered)
    except OverlappingEditsError:
        return None
    return ordered if _parses(source, ordered, after) else None


def _parses(source: SourceText, edits: Sequence[Edit], after: SourceText) -> bool:
    """Whether `after` parses, which `edits` make of `source`.

    Where the statements around the edits parse by themselves, at the same indentation, so does the file: what stands in
    front of them and behind is whole statements as before. A long file would take most of the time of a rule otherwise.
    """
    around = _lines_around(source, edits)
    if around is None:
        return after.tree is not None
    first, last = around
    begin = source.offset(first, 0)
    behind = len(source.text) - (source.offset(last + 1, 0) if last < source.line_count else len(source.text))
    return _is_block(after.text[begin : len(after.text) - behind], source.indentation(first)) or after.tree is not None


def _is_block(text: str, indentation: str) -> bool:
    """Whether `text` is whole statements, the first of them at `indentation`, that may stand among others there."""
    block = SourceText("", f"if 1:\n{text}" if indentation else text)
    module = block.tree
    if module is None or not module.body:
        return False
    if not indentation:
        return True
    only = module.body[0]
    if len(module.body) > 1 or not isinstance(only, ast.If) or only.orelse:
        return False
    # A first line that a backslash joins to the next would hide the indentation that counts.
    return _first_line(only.body[0]) == 2 and block.indentation(2) == indentation


def _lines_around(source: SourceText, edits: Sequence[Edit]) -> tuple[int, int] | None:
    """The first and last line of the statements, of one block, that hold all the edits. None if other lines do."""
    if source.tree is None or not edits:
        return None
    first, last = min(edit.start[0] for edit in edits), max(_last_line(edit) for edit in edits)
    block: list[ast.stmt] = source.tree.body
    while True:
        held = [s for s in block if _first_line(s) <= last and (s.end_lineno or s.lineno) >= first]
        if not held:
            return None
        body = held[0].body if len(held) == 1 and isinstance(held[0], _Definition) else None
        if body and _first_line(body[0]) <= first and last <= (body[-1].end_lineno or 0) and _begins_line(source, body):
            block = body
            continue
        around = _first_line(held[0]), held[-1].end_lineno or 0
        shared = any(_first_line(s) <= around[1] and (s.end_lineno or 0) >= around[0] for s in block if s not in held)
        return around if around[0] <= first and last <= around[1] and not shared else None


def _begins_line(source: SourceText, body: Sequence[ast.stmt]) -> bool:
    line = _first_line(body[0])
    return source.span(body[0]).start <= (line, len(source.indentation(line))) or bool(_decorators(body[0]))


def _first_line(statement: ast.stmt) -> int:
    return min([statement.lineno, *(decorator.lineno for decorator in _decorators(statement))])


def _decorators(statement: ast.stmt) -> list[ast.expr]:
    return statement.decorator_list if isinstance(statement, _Definition) else []


def _last_line(edit: Edit) -> int:
    """The last line that an edit changes. One that takes away whole lines leaves the line behind them as it is."""
    whole = edit.end[1] == 0 and edit.start[1] == 0 and not edit.text
    return max(edit.start[0], edit.end[0] - whole)
