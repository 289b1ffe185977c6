"""What is read, bound and changed, and what may be the same memory."""

from __future__ import annotations

import ast
import textwrap

import pytest

from forwardlens.source.dataflow import aliases, changes, fresh_name, read_after
from forwardlens.source.text import SourceText
from forwardlens.source.tree import Tree, tree_of


def _function(*lines: str) -> tuple[Tree, ast.FunctionDef]:
    body = textwrap.indent("\n".join(lines), "    ")
    tree = tree_of(SourceText("/w/x.py", f"def f(self, x, y):\n{body}\n"))
    assert tree is not None
    function = tree.module.body[0]
    assert isinstance(function, ast.FunctionDef)
    return tree, function


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        (["for t in x: pass", "return t"], True),
        (["for t in x: pass", "return x"], False),
        (["for t in x: pass", "t = 1", "return t"], False),
        (["for t in x: pass", "for t in y: g(t)"], False),
        (["for t in x: pass", "for i in y: g(t)"], True),
        (["for t in x: pass", "return [t for t in y]"], False),
        (["for t in x: pass", "return [t for i in y]"], True),
        (["for t in x: pass", "if y:", "    t = 1", "return t"], True),
        (["for t in x: pass", "if y:", "    t = 1", "else:", "    t = 2", "return t"], False),
        (["for t in x: pass", "t += 1"], True),
        (["for t in x: pass", "return", "print(t)"], False),
        (["for t in x: pass", "g = lambda: t", "return g"], True),
        (["for i in y:", "    for t in x: pass", "return t"], True),
        (["for i in y:", "    print(t)", "    for t in x: pass"], True),
        (["for i in y:", "    t = 0", "    for t in x: pass"], False),
        (["while y:", "    for t in x: pass", "    y = t"], True),
        (["with y:", "    for t in x: pass", "return t"], True),
    ],
)
def test_read_after(lines: list[str], *, read: bool) -> None:
    tree, function = _function(*lines)
    loop = next(n for n in ast.walk(function) if isinstance(n, ast.For) and ast.unparse(n.target) == "t")
    assert read_after(tree, loop, "t") is read


@pytest.mark.parametrize(
    ("lines", "shared"),
    [
        (["z = x.view(-1)"], {"x", "z"}),
        (["z = x[0].transpose(0, 1)", "w = z.T"], {"x", "z", "z.T", "w"}),
        (["z = x + 1"], {"x"}),
        (["z = torch.zeros(x.size(0))"], {"x"}),
        (["z = x.clone()"], {"x"}),
        (["z = self.layer(x)"], {"x", "z"}),
        (["z = x if y else 0"], {"x", "z"}),
        (["z, w = x.chunk(2)"], {"x", "z", "w"}),
        (["for row in x: pass"], {"x", "row"}),
        (["for a, b in zip(x, y): pass"], {"x", "a"}),
        (["for i, a in enumerate(x): pass"], {"x", "a"}),
        (["z[0] = x"], {"x"}),
        (["self.kept = x", "z = self.kept[1]"], {"x", "self.kept", "z"}),
        (["n = x.shape"], {"x"}),
    ],
)
def test_aliases(lines: list[str], shared: set[str]) -> None:
    assert aliases(_function(*lines)[1], "x") == shared


@pytest.mark.parametrize(
    ("line", "places"),
    [
        ("x[0] = 1", ["x"]),
        ("x += 1", ["x"]),
        ("x.mul_(2)", ["x"]),
        ("x[0].view(-1).zero_()", ["x"]),
        ("torch.relu_(x)", ["x"]),
        ("nn.init.normal_(self.w)", ["self.w"]),
        ("torch.add(x, y, out=self.buffer)", ["self.buffer"]),
        ("F.relu(x, inplace=True)", ["x"]),
        ("self.kept = x", ["self.kept"]),
        ("rows.append(x)", ["rows"]),
        ("z = x.mul(2)", []),
        ("x.requires_grad_()", []),
        ("x.__len__()", []),
    ],
)
def test_changes(line: str, places: list[str]) -> None:
    assert [place for _, place in changes(_function(line)[1])] == places


def test_fresh_name() -> None:
    assert fresh_name(_function("rows = 1", "rows_2 = 2")[1], "rows") == "rows_3"
    assert fresh_name(_function("pass")[1], "rows") == "rows"
    assert fresh_name(_function("pass")[1], "x") == "x_2"
