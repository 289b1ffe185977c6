"""What a file offers to profile, read from its syntax alone: nothing is imported or run.

The guess may be generous. It decides where a lens stands and which names a message lists, never what runs without
the user asking for it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TypeVar

from forwardlens.model import Span
from forwardlens.source.text import SourceText

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_Scope = ast.Module | ast.ClassDef | _Function
_Statement = TypeVar("_Statement", bound=ast.stmt)

# Where statements hold other statements.
_BLOCKS = ("body", "handlers", "cases", "orelse", "finalbody")
# Only a tie-break between functions that return the same kind of thing.
_USUAL_NAMES = ("build", "make", "create", "example", "sample", "demo", "entry", "bench")
# Bases that are no `nn.Module`. Any other class of another file may be one.
_NO_MODULES = {"ABC", "Enum", "Function", "Generic", "NamedTuple", "Protocol", "TypedDict", "object"}
# Methods and functions that hand back the module they are given.
_PASSING_METHODS = {"bfloat16", "cpu", "cuda", "double", "eval", "float", "half", "requires_grad_", "to", "train"}
_PASSING_FUNCTIONS = {"torch.compile"}
_MODEL_WORDS = ("model", "module", "net", "layer", "block", "encoder", "decoder")


class Evidence(IntEnum):
    """How surely a function is an entry, by what it returns."""

    CALLABLE = 1
    """Something to call without arguments."""
    TUPLE = 2
    """A tuple that begins with what may be a model."""
    MODEL = 3
    """A tuple that begins with what is seen to be a module."""


@dataclass(frozen=True, slots=True)
class ForwardMethod:
    """The forward of a module class. `header` is its `def` line, `body` the whole method."""

    class_name: str
    header: Span
    body: Span


@dataclass(frozen=True, slots=True)
class EntryFunction:
    """A function that can be given as `file.py:name`. `mentions` are the names its body uses."""

    name: str
    header: Span
    evidence: Evidence
    mentions: frozenset[str]


def forward_methods(source: SourceText) -> tuple[ForwardMethod, ...]:
    """The forwards of the module classes in a file, from top to bottom."""
    if source.tree is None:
        return ()
    classes = _classes_of(source)
    found = [
        ForwardMethod(name, _header(source, method), source.span(method))
        for name, node in classes.named
        if classes.is_module(node) and (method := _forward_of(node)) is not None
    ]
    return tuple(sorted(found, key=lambda forward: forward.header))


def entry_functions(source: SourceText) -> tuple[EntryFunction, ...]:
    """The functions of a file that look like entries, likeliest first."""
    if source.tree is None:
        return ()
    classes = _classes_of(source)
    found = [
        EntryFunction(node.name, _header(source, node), evidence, _names_in(node))
        for node in _statements(source.tree, ast.FunctionDef)
        if _is_callable_as_entry(node) and (evidence := _evidence(node, classes)) is not None
    ]
    return tuple(sorted(found, key=lambda entry: (-entry.evidence, _name_rank(entry.name), entry.header)))


def likely_entries(source: SourceText) -> tuple[EntryFunction, ...]:
    """Those of `entry_functions` that have the best evidence in the file."""
    entries = entry_functions(source)
    return tuple(entry for entry in entries if entry.evidence == entries[0].evidence)


@dataclass(frozen=True, slots=True)
class RefusedFunction:
    """A function that returns what an entry does and cannot be one. `reason` completes "it is none because"."""

    name: str
    line: int
    reason: str


def refused_functions(source: SourceText) -> tuple[RefusedFunction, ...]:
    """Functions that would be entries but for how they are called, from top to bottom."""
    if source.tree is None:
        return ()
    classes = _classes_of(source)
    return tuple(
        RefusedFunction(node.name, node.lineno, _refusal(node))
        for node in _statements(source.tree, ast.FunctionDef)
        if not _is_callable_as_entry(node) and not node.name.startswith("test") and _evidence(node, classes) is not None
    )


def _refusal(node: ast.FunctionDef) -> str:
    arguments = node.args
    positional = [*arguments.posonlyargs, *arguments.args]
    needed = [argument.arg for argument in positional[: len(positional) - len(arguments.defaults)]]
    needed += [a.arg for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if default is None]
    if needed:
        return f"it needs {', '.join(needed)}, and an entry is called without arguments; give them defaults"
    return "it is a fixture of pytest; name a test that uses it"


@dataclass(frozen=True, slots=True)
class _Classes:
    """The classes of a file, and what its imported names stand for."""

    named: tuple[tuple[str, ast.ClassDef], ...]
    imports: Mapping[str, str]

    def local(self, name: str) -> ast.ClassDef | None:
        return next((node for known, node in reversed(self.named) if known == name), None)

    def full_name(self, node: ast.expr) -> str | None:
        """`nn.Linear` as `torch.nn.Linear`, by the imports of the file."""
        dotted = _dotted(node)
        if dotted is None:
            return None
        first, _, rest = dotted.partition(".")
        return ".".join(filter(None, (self.imports.get(first, first), rest)))

    def is_module(self, node: ast.ClassDef, below: frozenset[str] = frozenset()) -> bool:
        """Whether a class is an `nn.Module`; `below` guards against classes that inherit from each other."""
        return node.name not in below and any(self._is_module_base(base, node, below) for base in node.bases)

    def _is_module_base(self, base: ast.expr, node: ast.ClassDef, below: frozenset[str]) -> bool:
        name = _dotted(base)
        if name is None:
            return False
        local = self.local(name)
        if local is not None and local is not node:
            return self.is_module(local, below | {node.name})
        return self.is_foreign_module(base) or (self._may_be_foreign_module(name) and _forward_of(node) is not None)

    def is_foreign_module(self, node: ast.expr) -> bool:
        return (self.full_name(node) or "").startswith("torch.nn.")

    def _may_be_foreign_module(self, name: str) -> bool:
        """A base that another file defines: nobody but a module's subclass writes a `forward` there."""
        package = self.imports.get(name.partition(".")[0], "").partition(".")[0]
        return bool(package) and package not in sys.stdlib_module_names and name.rpartition(".")[2] not in _NO_MODULES


@lru_cache(maxsize=16)
def _classes_of(source: SourceText) -> _Classes:
    tree = source.tree or ast.Module([], [])
    return _Classes(tuple(_named_classes(tree)), dict(_imports(tree)))


def _named_classes(scope: _Scope) -> Iterator[tuple[str, ast.ClassDef]]:
    """Every class by its plain name, wherever it is defined: that is what a target is given by."""
    for node in _own_nodes(scope):
        if isinstance(node, ast.ClassDef):
            yield node.name, node
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _named_classes(node)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in _statements(tree, ast.Import):
        for alias in node.names:
            package = alias.name.partition(".")[0]
            yield (alias.asname, alias.name) if alias.asname else (package, package)
    for node in _statements(tree, ast.ImportFrom):
        # A relative import names no package; all that counts is that the name comes from elsewhere.
        package = node.module or "" if not node.level else f"<relative>.{node.module or ''}"
        for alias in node.names:
            yield alias.asname or alias.name, f"{package}.{alias.name}"


def _statements(scope: _Scope, kind: type[_Statement]) -> Iterator[_Statement]:
    """The statements of a kind that run in `scope` itself, also under `if`, `try`, `with` and loops."""
    return (node for node in _own_nodes(scope) if isinstance(node, kind))


def _own_nodes(scope: _Scope) -> Iterator[ast.AST]:
    """The statements of `scope` with their handlers and cases, without those of inner classes and functions."""
    pending: list[ast.AST] = list(reversed(scope.body))
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            for block in reversed(_BLOCKS):
                pending.extend(reversed(getattr(node, block, ())))


def _forward_of(node: ast.ClassDef) -> ast.FunctionDef | None:
    """The last definition of `forward`, which is the one Python keeps; a static one belongs to autograd."""
    methods = [method for method in _statements(node, ast.FunctionDef) if method.name == "forward"]
    if not methods or any(_dotted(decorator) == "staticmethod" for decorator in methods[-1].decorator_list):
        return None
    return methods[-1]


def _header(source: SourceText, node: _Function) -> Span:
    """The `def` line, so that a lens stands below the decorators."""
    return source.line_span(node.lineno)


def _is_callable_as_entry(node: ast.FunctionDef) -> bool:
    """It takes no required argument and is neither a test nor a fixture."""
    arguments = node.args
    required = len(arguments.posonlyargs) + len(arguments.args) > len(arguments.defaults)
    required = required or any(default is None for default in arguments.kw_defaults)
    fixture = any((_dotted(_callee(d)) or "").endswith("fixture") for d in node.decorator_list)
    return not (required or fixture or node.name.startswith("test"))


def _evidence(node: ast.FunctionDef, classes: _Classes) -> Evidence | None:
    returned = [value for statement in _statements(node, ast.Return) if (value := statement.value) is not None]
    found = [evidence for value in returned if (evidence := _evidence_of(value, node, classes)) is not None]
    if _returns_module_tuple(node, classes):
        found.append(Evidence.MODEL)
    return max(found, default=None)


def _evidence_of(value: ast.expr, function: ast.FunctionDef, classes: _Classes) -> Evidence | None:
    if isinstance(value, ast.Tuple):
        return _model_evidence(value.elts[0], function, classes) if len(value.elts) in (2, 3) else None
    return Evidence.CALLABLE if _is_function(value, function) and "torch" in _packages(classes) else None


def _model_evidence(first: ast.expr, function: ast.FunctionDef, classes: _Classes) -> Evidence | None:
    value = _unwrapped(_assigned(first, function), classes)
    name = _dotted(_callee(value)) or ""
    local = classes.local(name)
    if isinstance(value, ast.Call) and (classes.is_foreign_module(value.func) or (local and classes.is_module(local))):
        return Evidence.MODEL
    last = name.rpartition(".")[2]
    looks_built = isinstance(value, ast.Call) and (last[:1].isupper() or last == "from_pretrained")
    words = f"{_dotted(first) or ''} {name}".lower()
    return Evidence.TUPLE if looks_built or any(word in words for word in _MODEL_WORDS) else None


def _returns_module_tuple(node: ast.FunctionDef, classes: _Classes) -> bool:
    """The annotation says so: `-> tuple[nn.Module, ...]`."""
    match node.returns:
        case ast.Subscript(value=outer, slice=ast.Tuple(elts=[first, *_])):
            local = classes.local(_dotted(first) or "")
            is_tuple = (_dotted(outer) or "").rpartition(".")[2] in ("tuple", "Tuple")
            return is_tuple and (classes.is_foreign_module(first) or (local is not None and classes.is_module(local)))
        case _:
            return False


def _is_function(value: ast.expr, function: ast.FunctionDef) -> bool:
    if isinstance(value, ast.Call):
        return (_dotted(value.func) or "").rpartition(".")[2] == "partial"
    inner = {node.name for node in _statements(function, ast.FunctionDef)}
    return isinstance(value, ast.Lambda) or (isinstance(value, ast.Name) and value.id in inner)


def _assigned(value: ast.expr, function: ast.FunctionDef) -> ast.expr:
    """What a local name was last assigned; anything else as it is."""
    if not isinstance(value, ast.Name):
        return value
    found: ast.expr = value
    for statement in _statements(function, ast.Assign):
        if any(isinstance(target, ast.Name) and target.id == value.id for target in statement.targets):
            found = statement.value
    return found


def _unwrapped(value: ast.expr, classes: _Classes) -> ast.expr:
    """`Net().eval().to(device)` as `Net()`."""
    while isinstance(value, ast.Call):
        if isinstance(value.func, ast.Attribute) and value.func.attr in _PASSING_METHODS:
            value = value.func.value
        elif classes.full_name(value.func) in _PASSING_FUNCTIONS and value.args:
            value = value.args[0]
        else:
            break
    return value


def _packages(classes: _Classes) -> set[str]:
    return {name.partition(".")[0] for name in classes.imports.values()}


def _names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(child.id for child in ast.walk(node) if isinstance(child, ast.Name))


def _callee(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def _dotted(node: ast.expr) -> str | None:
    """`a.b.c` of an expression that is a name with attributes, also under a subscript such as `Base[int]`."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=attribute):
            inner = _dotted(value)
            return None if inner is None else f"{inner}.{attribute}"
        case ast.Subscript(value=value):
            return _dotted(value)
        case _:
            return None


def _name_rank(name: str) -> tuple[bool, bool]:
    return name.startswith("_"), not name.startswith(_USUAL_NAMES)
