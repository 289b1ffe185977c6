"""Edits are as small as they can be and leave everything else alone."""

from __future__ import annotations

import ast

import libcst as cst
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from forwardlens.model import Edit
from forwardlens.source.edits import OverlappingEditsError, apply_edits
from forwardlens.source.rewrite import (
    change_text,
    checked,
    edit_between,
    insert_before,
    insert_decorator,
    replace_statements,
    splice,
    stands_alone,
    with_keyword,
    without_argument,
)
from forwardlens.source.text import SourceText
from forwardlens.source.tree import Tree, tree_of


def _tree(text: str) -> Tree:
    tree = tree_of(SourceText("/w/x.py", text))
    assert tree is not None
    return tree


def _keyword(text: str) -> str:
    def change(node: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(node, cst.Call)
        return with_keyword(node, "device", "x.device")

    return change_text(text, change)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()", "f(device=x.device)"),
        ("f(a)", "f(a, device=x.device)"),
        ("f(a, b=1)", "f(a, b=1, device=x.device)"),
        ("f(\n    a,\n    b,\n)", "f(\n    a,\n    b,\n    device=x.device,\n)"),
        ("f(\n    a,  # first\n)", "f(\n    a,  # first\n    device=x.device,\n)"),
        ("f(\r\n\ta,\r\n)", "f(\r\n\ta,\r\n\tdevice=x.device,\r\n)"),
        ("f(a,)", "f(a,device=x.device,)"),
    ],
)
def test_with_keyword(before: str, after: str) -> None:
    assert _keyword(before) == after


@pytest.mark.parametrize(
    ("before", "position", "after"),
    [("f(a, b)", 0, "f(b)"), ("f(a, k=1)", None, "f(a)"), ("f(k=1, a=2)", None, "f(a=2)"), ("f(a)", 0, "f()")],
)
def test_without_argument(before: str, position: int | None, after: str) -> None:
    def change(node: cst.BaseExpression) -> cst.BaseExpression:
        assert isinstance(node, cst.Call)
        return without_argument(node, position, "k")

    assert change_text(before, change) == after


def test_an_edit_leaves_out_what_stays() -> None:
    source = SourceText("/w/x.py", "value = a.b(c)\n")
    assert edit_between(source, 8, 14, "a.XY(c)") == Edit("/w/x.py", (1, 10), (1, 11), "XY")


def test_an_edit_cuts_no_word() -> None:
    source = SourceText("/w/x.py", "value = torch.cat(parts)\n")
    assert edit_between(source, 8, 24, "total(parts)") == Edit("/w/x.py", (1, 8), (1, 17), "total")


def test_an_edit_does_not_cut_a_line_end_in_half() -> None:
    source = SourceText("/w/x.py", "a\r\nb\r\nc")
    edit = edit_between(source, 0, 7, "a\r\nc")
    assert apply_edits(source, [edit]).text == "a\r\nc"
    assert "\r" not in source.line(edit.start[0])[: edit.start[1]]


def test_statements_are_replaced_in_their_own_dress() -> None:
    tree = _tree("if a:\r\n\tx = 1\r\n\ty = 2\r\n\tz = 3\r\n")
    block = tree.block(next(n for n in ast.walk(tree.module) if isinstance(n, ast.Assign)))
    edit = replace_statements(tree, block[:2], ["p = 1", "q = 2"])
    assert apply_edits(tree.source, [edit]).text == "if a:\r\n\tp = 1\r\n\tq = 2\r\n\tz = 3\r\n"
    gone = replace_statements(tree, block[:1], [])
    assert apply_edits(tree.source, [gone]).text == "if a:\r\n\ty = 2\r\n\tz = 3\r\n"


def test_lines_and_decorators_are_inserted_in_the_indentation() -> None:
    tree = _tree("class A:\n    @old\n    def f(self):\n        return 1\n")
    function = tree.functions()[0]
    decorated = insert_decorator(tree, function, "@new")
    assert apply_edits(tree.source, [decorated]).text == (
        "class A:\n    @old\n    @new\n    def f(self):\n        return 1\n"
    )
    before = insert_before(tree, function.body[0], ["a = 1", "b = 2"])
    assert "        a = 1\n        b = 2\n        return 1\n" in apply_edits(tree.source, [before]).text


def test_splice_replaces_parts_and_keeps_the_rest() -> None:
    tree = _tree("r = f( a , # why\n  b )\n")
    call = next(n for n in ast.walk(tree.module) if isinstance(n, ast.Call))
    assert splice(tree.source, call, {call.args[0]: "longer", call.args[1]: "c"}) == "f( longer , # why\n  c )"


@pytest.mark.parametrize(
    ("text", "alone"),
    [("x = 1\n", True), ("x = 1  # why\n", True), ("x = 1; y = 2\n", False), ("if a: x = 1\n", False)],
)
def test_stands_alone(text: str, *, alone: bool) -> None:
    tree = _tree(text)
    statement = next(n for n in ast.walk(tree.module) if isinstance(n, ast.Assign))
    assert stands_alone(tree, statement) is alone


def test_edits_that_overlap_or_do_not_parse_are_refused() -> None:
    source = SourceText("/w/x.py", "x = 1\n")
    fine = Edit("/w/x.py", (1, 4), (1, 5), "2")
    assert checked(source, [fine]) == (fine,)
    assert checked(source, [fine, Edit("/w/x.py", (1, 3), (1, 5), " 3")]) is None
    assert checked(source, [Edit("/w/x.py", (1, 4), (1, 5), "(")]) is None


_CLASS = """\
import torch


class Model(Base):
    \"\"\"What it
does.\"\"\"; kind = 1

    @property
    def size(self):
        # why
        if self.x: return 1
        else:
            return (
  2)

    def forward(self, x):
        y = x; z = y

        for row in x:
            y = y + row
        return y

    def end(self): return 3


last = 4
"""
_LINES = _CLASS.count("\n")
_NEW = [
    "",
    "x",
    "\n",
    "\n    ",
    "else:\n",
    "        y = 1\n",
    "(",
    ")",
    '"""',
    "\\\n",
    "; y",
    "@d\n",
    "    def f(self):\n",
    "\t",
]


@st.composite
def _edits(draw: st.DrawFn) -> list[Edit]:
    first = draw(st.integers(1, _LINES))
    edits: list[Edit] = []
    for _ in range(draw(st.integers(1, 2))):
        places = [
            (min(_LINES, first + draw(st.integers(0, 2))), draw(st.sampled_from([0, 2, 4, 8, 12, 99])))
            for _ in range(2)
        ]
        edits.append(Edit("/w/x.py", min(places), max(places), draw(st.sampled_from(_NEW))))
    return edits


def _put(start: tuple[int, int], end: tuple[int, int], text: str) -> list[Edit]:
    return [Edit("/w/x.py", start, end, text)]


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@settings(max_examples=400, deadline=None)
@example(_put((17, 2), (17, 8), "\\\n        "))
@example(_put((17, 8), (17, 99), "y = x\nz = y"))
@example(_put((17, 8), (17, 99), "y = x\nelse:\n        z = y"))
@example(_put((17, 0), (17, 8), "         "))
@example(_put((17, 0), (17, 8), "\t"))
@given(_edits())
def test_edits_are_refused_just_where_the_whole_file_would_not_parse(edits: list[Edit]) -> None:
    source = SourceText("/w/x.py", _CLASS)
    try:
        after = apply_edits(source, edits)
    except OverlappingEditsError:
        return
    assert (checked(source, edits) is None) is (after.tree is None)
