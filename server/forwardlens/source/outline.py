"""What one file defines and which names each definition uses: the half of a search for callers that needs one file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from forwardlens.source.entries import entry_functions
from forwardlens.source.text import SourceText
from forwardlens.source.tree import Function, dotted

Kind = Literal["class", "function", "entry", "fixture", "test", "script"]

SCRIPT = "__main__"
"""The name of what a file does by itself when it is run."""
# Run before every test of a class, so that what they use every test uses.
_SET_UP = {"setUp", "setUpClass", "setup_method", "setup_class"}


@dataclass(frozen=True, slots=True)
class Definition:
    """A class, a function or a test of a file, or what the file does when it is run.

    `mentions` are the names it uses, with their attributes (`models.Encoder`). A test in a class is `Class::test`.
    """

    name: str
    kind: Kind
    line: int
    mentions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Imported:
    """Where a name comes from: `name` of `module`, or the module itself. `level` counts the dots before it."""

    module: str
    name: str | None
    level: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A file as a search for callers sees it. `stars` are the modules whose every name it imports."""

    definitions: tuple[Definition, ...]
    imports: dict[str, Imported]
    stars: tuple[Imported, ...]


def outline(source: SourceText) -> Outline:
    """The outline of a file; an empty one while it does not parse."""
    if source.tree is None:
        return Outline((), {}, ())
    imports, stars = _imports(source.tree)
    return Outline(tuple(_definitions(source, source.tree)), imports, stars)


def _imports(tree: ast.Module) -> tuple[dict[str, Imported], tuple[Imported, ...]]:
    named: dict[str, Imported] = {}
    stars: list[Imported] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                named[alias.asname or first] = Imported(alias.name if alias.asname else first, None, 0)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found = Imported(node.module or "", None if alias.name == "*" else alias.name, node.level)
                if found.name is None:
                    stars.append(found)
                else:
                    named[alias.asname or alias.name] = found
    return named, tuple(stars)


def _definitions(source: SourceText, tree: ast.Module) -> Iterator[Definition]:
    entries = {entry.name for entry in entry_functions(source)}
    functions = [node for node in tree.body if isinstance(node, Function)]
    for node in functions:
        yield Definition(node.name, _kind(node, entries), node.lineno, _mentions([node]) | _parameters(node))
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield Definition(node.name, "class", node.lineno, _mentions([node]))
            yield from _tests(node)
    yield from _script(tree, functions)


def _kind(node: Function, entries: set[str]) -> Kind:
    if any(name.endswith("fixture") for name in _decorators(node)):
        return "fixture"
    if node.name.startswith("test"):
        return "test"
    return "entry" if node.name in entries else "function"


def _tests(node: ast.ClassDef) -> Iterator[Definition]:
    """The tests of a class as pytest collects them: of `Test…`, or of a subclass of unittest's `TestCase`."""
    if not (node.name.startswith("Test") or any(name.endswith("TestCase") for name in _mentions(node.bases))):
        return
    methods = [child for child in node.body if isinstance(child, Function)]
    shared = _mentions([*node.bases, *(method for method in methods if method.name in _SET_UP)])
    for method in methods:
        if method.name.startswith("test"):
            mentions = _mentions([method]) | _parameters(method) | shared
            yield Definition(f"{node.name}::{method.name}", "test", method.lineno, mentions)


def _script(tree: ast.Module, functions: Iterable[Function]) -> Iterator[Definition]:
    """What runs with the file, if it does more than define: a call, or anything below `if __name__ == …`."""
    passive = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
    statements = [node for node in tree.body if not isinstance(node, passive)]
    acting = [node for node in statements if _is_main_block(node) or _is_call(node) or _is_block(node)]
    if acting:
        mentions = _mentions(statements)
        # What is registered with a command line that the script starts, such as a click group, is called by it.
        called = (f.name for f in functions if any(name.partition(".")[0] in mentions for name in _decorators(f)))
        yield Definition(SCRIPT, "script", acting[0].lineno, mentions | frozenset(called))


def _is_main_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in _mentions([node.test])


def _is_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _is_block(node: ast.stmt) -> bool:
    return isinstance(node, ast.For | ast.While | ast.With)


def _decorators(node: Function) -> Iterator[str]:
    for decorator in node.decorator_list:
        yield from _mentions([decorator.func if isinstance(decorator, ast.Call) else decorator])


def _parameters(node: Function) -> frozenset[str]:
    """A test asks for a fixture by the name of a parameter."""
    return frozenset(argument.arg for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))


def _mentions(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The names used anywhere in `nodes`, each with as many attributes as follow it."""
    found: set[str] = set()
    pending: list[ast.AST] = list(nodes)
    while pending:
        node = pending.pop()
        name = dotted(node)
        if name is None:
            pending.extend(ast.iter_child_nodes(node))
        else:
            found.add(name)
    return frozenset(found)
