"""Questions about one file's syntax tree that need more than the node itself: parents, loops, statements, text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from forwardlens.model import Span
from forwardlens.source.text import SourceText

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
Looping = ast.For | ast.AsyncFor | ast.While | Comprehension
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Tree:
    """An immutable view of a parsed file. Build it with `tree_of`, which remembers it per text."""

    def __init__(self, source: SourceText, module: ast.Module) -> None:
        self.source = source
        self.module = module
        self._parents = {child: node for node in walk(module) for child in ast.iter_child_nodes(node)}
        self._by_span: dict[tuple[tuple[int, int], tuple[int, int]], list[ast.expr | ast.stmt]] = {}
        self._joined = tuple(node for node in self._parents if isinstance(node, ast.JoinedStr))
        self._functions = tuple(node for node in self._parents if isinstance(node, Function))
        for node in self._parents:
            if isinstance(node, (ast.expr, ast.stmt)):
                span = source.span(node)
                self._by_span.setdefault((span.start, span.end), []).append(node)

    def at(self, span: Span) -> list[ast.expr | ast.stmt]:
        """The nodes that stand exactly at `span`, outermost first."""
        return self._by_span.get((span.start, span.end), [])

    def joined_around(self, span: Span) -> ast.JoinedStr | None:
        """The innermost f-string that `span` stands in."""
        around = [node for node in self._joined if self.source.span(node).contains(span)]
        return max(around, key=lambda node: self.source.span(node).start, default=None)

    def parent(self, node: ast.AST) -> ast.AST | None:
        return self._parents.get(node)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""
        above = self._parents.get(node)
        while above is not None:
            yield above
            above = self._parents.get(above)

    def function(self, node: ast.AST) -> Function | None:
        """The `def` whose body runs `node`. A lambda counts as part of the `def` around it."""
        inner = node
        for above in self.ancestors(node):
            if isinstance(above, Function) and inner in above.body:
                return above
            inner = above
        return None

    def owner(self, function: ast.AST) -> ast.ClassDef | None:
        """The class that `function` is a method of."""
        parent = self.parent(function)
        return parent if isinstance(parent, ast.ClassDef) else None

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement around `node`, or `node` itself."""
        if isinstance(node, ast.stmt):
            return node
        return next(above for above in self.ancestors(node) if isinstance(above, ast.stmt))

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The list of statements that holds `statement`."""
        parent = self.parent(statement)
        for _, value in ast.iter_fields(parent) if parent is not None else ():
            if isinstance(value, list) and statement in value:
                return value  # pyright: ignore[reportUnknownVariableType]
        return [statement]

    def loops(self, node: ast.AST) -> Iterator[Looping]:
        """The loops that run `node` again and again, innermost first, within its function."""
        inner = node
        for above in self.ancestors(node):
            if isinstance(above, _FUNCTIONS):
                return
            if isinstance(above, (ast.For, ast.AsyncFor, ast.While)):
                if inner in above.body or (isinstance(above, ast.While) and inner is above.test):
                    yield above
            elif isinstance(above, _COMPREHENSIONS) and not _is_first_iterable(above, inner, node):
                yield above
            inner = above

    def text(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg) -> str:
        return self.source.slice(self.source.span(node))

    def atom(self, node: ast.expr) -> str:
        """The text of `node` as it may stand in front of a dot or a bracket."""
        return self.text(node) if is_atom(node) else f"({self.text(node)})"

    def functions(self) -> tuple[Function, ...]:
        return self._functions

    def qualname(self, function: Function) -> str:
        """The function with the classes and functions around it, as costs name it: `Encoder.forward`."""
        around = [above.name for above in self.ancestors(function) if isinstance(above, Function | ast.ClassDef)]
        return ".".join([*reversed(around), function.name])


def _is_first_iterable(comprehension: Comprehension, inner: ast.AST, node: ast.AST) -> bool:
    """The first iterable of a comprehension is evaluated once, before the loop starts."""
    first = comprehension.generators[0]
    return inner is first and any(node is below for below in walk(first.iter))


@lru_cache(maxsize=64)
def tree_of(source: SourceText) -> Tree | None:
    """The tree of `source`, or None while it does not parse."""
    module = source.tree
    return None if module is None else Tree(source, module)


@lru_cache(maxsize=2048)
def walk(node: ast.AST) -> tuple[ast.AST, ...]:
    """`node` and the nodes inside it, in the order of `ast.walk`.

    Remembered, because rules ask about the same functions and loops again and again: walking anew took nine tenths of
    their time on long files.
    """
    return tuple(ast.walk(node))


def dotted(node: ast.AST) -> str | None:
    """`self.word.weight` for a chain of names, None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return None if base is None else f"{base}.{node.attr}"
    return None


def integer(node: ast.AST | None) -> int | None:
    """The value of an integer literal with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = integer(node.operand)
        return None if value is None else -value
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def is_atom(node: ast.expr) -> bool:
    """Whether the text of `node` can stand in front of a dot or a bracket."""
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))


def range_arguments(node: ast.AST) -> list[ast.expr] | None:
    """What `range` is called with; None for anything else."""
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"
    return node.args if isinstance(node, ast.Call) and called and not node.keywords else None


def one_more(node: ast.expr) -> ast.expr | None:
    """`n` for `n - 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and integer(node.right) == 1:
        return node.left
    return None


def unpacked(target: ast.AST | None, value: ast.expr) -> list[tuple[ast.expr, ast.expr]] | None:
    """The targets of `a, b = x, y` with what each gets; None where the source does not show it."""
    if not isinstance(target, (ast.Tuple, ast.List)) or not isinstance(value, (ast.Tuple, ast.List)):
        return None
    starred = any(isinstance(e, ast.Starred) for e in (*target.elts, *value.elts))
    return None if starred or len(target.elts) != len(value.elts) else [*zip(target.elts, value.elts, strict=True)]


def assigned(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    """What an assignment to one target binds, with what each gets: `rows = []`, `total, rows = 0, []`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return []
    return unpacked(statement.targets[0], statement.value) or [(statement.targets[0], statement.value)]


def argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    """The argument of a call, given by position or by keyword. None if absent or hidden behind a star."""
    if any(isinstance(arg, ast.Starred) for arg in call.args) or any(k.arg is None for k in call.keywords):
        return None
    if position < len(call.args):
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword_name(keyword) == name), None)


# What torch's functions and methods also take in NumPy's words.
_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def keyword_name(keyword: ast.keyword) -> str | None:
    """The name of an argument as torch's documentation has it: `dim` also for `axis`. None for `**options`."""
    return None if keyword.arg is None else _NUMPY_NAMES.get(keyword.arg, keyword.arg)


@lru_cache(maxsize=256)
def module_aliases(module: ast.Module, name: str) -> frozenset[str]:
    """The names under which a file knows the module `name`, such as `F` for `torch.nn.functional`."""
    found: set[str] = set()
    parent, _, leaf = name.rpartition(".")
    for node in walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == name and alias.asname:
                    found.add(alias.asname)
                elif alias.name.split(".")[0] == name.split(".")[0] and not alias.asname:
                    found.add(name)
        elif isinstance(node, ast.ImportFrom) and parent and node.module == parent:
            found |= {alias.asname or alias.name for alias in node.names if alias.name == leaf}
    return frozenset(found)
