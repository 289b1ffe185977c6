# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""`--target`: which of a program's calls is the forward to profile.

`Class`, `Class.method`, a path such as `model.encoder.layers.3`, or a line such as `net.py:57`.
"""

from __future__ import annotations

import ast
import difflib
import gc
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import torch

from .failures import Failure
from .overlay import Overlay, normal

_LINE = re.compile(r"(?P<file>.+\.py):(?P<line>\d+)")
_PATH = re.compile(r"\w+(\.\w+)*")
# What wraps a module without being part of the path its author knows it by: DataParallel and torch.compile.
_WRAPPED = ("module", "_orig_mod")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Target:
    """Which calls are wanted; the outermost module calls if nothing was named.

    `method` is that of a class, or a function if `class_name` is None; `path` leads to a module from a variable or
    from a module that is called; `statement` is a file with the first and last line of the statement that calls.
    """

    text: str | None = None
    class_name: str | None = None
    method: str = "forward"
    path: tuple[str, ...] = ()
    function: tuple[str, int] | None = None
    statement: tuple[str, int, int] | None = None
    _found: dict[int, torch.nn.Module] = field(default_factory=dict, compare=False)
    _searched: set[int] = field(default_factory=set, compare=False)

    def anew(self) -> Target:
        """The same target for another run of the program, whose modules are others."""
        return replace(self, _found={}, _searched=set())

    @property
    def is_traced(self) -> bool:
        """Whether the calls may be others than those of modules, so that the interpreter must be asked for them."""
        return self.function is not None or self.class_name is not None

    @property
    def _is_forward(self) -> bool:
        return self.function is None and self.method in ("forward", "__call__")

    def wants_module(self, module: torch.nn.Module) -> bool:
        """Whether any call of `module` is meant, whoever calls it."""
        return self._is_forward and self._is_class(type(module))

    def wants_call(self, module: torch.nn.Module, caller: FrameType) -> bool:
        """Whether the call of `module` that `caller` makes is meant."""
        if self.text is None:
            return True
        if self.statement is not None:
            return _stands_on(caller, self.statement)
        if self.wants_module(module) or id(module) in self._found:
            return True
        if self.path and id(module) not in self._searched:
            self._searched.add(id(module))
            found = _follow(self.path, module, caller)
            if found is not None:
                self._found[id(found)] = found
        return id(module) in self._found

    def wants_frame(self, frame: FrameType) -> bool:
        """Whether a function that starts to run is meant; asked only if `is_traced`."""
        code = frame.f_code
        if self.function is not None:
            file, line = self.function
            return code.co_firstlineno == line and code.co_name == self.method and normal(code.co_filename) == file
        if code.co_name != self.method or not code.co_argcount:
            return False
        owner = frame.f_locals.get(code.co_varnames[0])
        return self._is_class(type(owner)) and not (self._is_forward and isinstance(owner, torch.nn.Module))

    def _is_class(self, kind: type) -> bool:
        return any(base.__name__ == self.class_name for base in kind.__mro__)


def parse(text: str | None, workspace: str, overlay: Overlay) -> Target:
    """Raises `Failure` for what names nothing."""
    if not text:
        return Target()
    line = _LINE.fullmatch(text)
    if line is not None:
        return _at_line(text, os.path.join(workspace, line["file"]), int(line["line"]), overlay)
    if not _PATH.fullmatch(text):
        forms = "Class, Class.method, model.path.to.module or file.py:line"
        raise Failure("usage", f"`{text}` is no target; write {forms}")
    first, *rest = text.split(".")
    if len(rest) > 1 or any(part.isdigit() for part in rest):
        return Target(text, path=(first, *rest))
    return Target(text, class_name=first, method=rest[0] if rest else "forward", path=(first, *rest))


def _at_line(text: str, path: str, line: int, overlay: Overlay) -> Target:
    """The method that holds the line, the function whose `def` it is, or the calls of the statement on it."""
    if not os.path.isfile(path):
        raise Failure("usage", f"the target {text} names no file of the workspace")
    try:
        tree = ast.parse(overlay.text(path))
    except (SyntaxError, UnicodeDecodeError) as error:
        raise Failure("usage", f"the target {text} cannot be found: {path} is no Python ({error})") from None
    holders = list(_holding(tree, line))
    functions = [node for node in holders if isinstance(node, _FUNCTIONS)]
    for parent, node in zip([tree, *holders], holders, strict=False):
        if isinstance(parent, ast.ClassDef) and isinstance(node, _FUNCTIONS):
            return Target(text, class_name=parent.name, method=node.name)
    if functions and line <= _last_header_line(functions[-1]):
        return Target(text, method=functions[-1].name, function=(normal(path), _first(functions[-1])))
    if holders and isinstance(holders[-1], ast.stmt) and not isinstance(holders[-1], (*_FUNCTIONS, ast.ClassDef)):
        return Target(text, statement=(normal(path), *_extent(holders[-1], line)))
    raise Failure("usage", f"the target {text} holds no code; choose a line of a forward, a `def` or a call")


def _holding(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    """The definitions and statements around a line, from the outside in."""
    node: ast.AST | None = tree
    while node is not None:
        node = next((child for child in _statements(node) if _first(child) <= line <= (child.end_lineno or 0)), None)
        if node is not None:
            yield node


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _statements(child)


def _first(node: ast.stmt) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])


def _last_header_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return max(node.lineno, node.body[0].lineno - 1)


def _extent(statement: ast.stmt, line: int) -> tuple[int, int]:
    """The lines of a statement without those of the statements in it."""
    inner = [child.lineno for child in _statements(statement)]
    return statement.lineno, max(line, min(inner) - 1) if inner else statement.end_lineno or line


def _stands_on(frame: FrameType, statement: tuple[str, int, int]) -> bool:
    file, first, last = statement
    return first <= frame.f_lineno <= last and normal(frame.f_code.co_filename) == file


def _follow(path: tuple[str, ...], module: torch.nn.Module, caller: FrameType) -> torch.nn.Module | None:
    """The module at the end of `path`, which begins with a variable that holds `module`, or inside `module`.

    The variable's name may be another one (`self.model` for `model`), unless it is that of another module.
    """
    holder = _variable(path[0], caller)
    if holder is not None:
        return _submodule(module, path[1:]) if _unwrapped(holder) is _unwrapped(module) else None
    found = _submodule(module, path)
    return found if found is not None or len(path) == 1 else _submodule(module, path[1:])


def _variable(name: str, frame: FrameType | None) -> torch.nn.Module | None:
    while frame is not None:
        for scope in (frame.f_locals, frame.f_globals):
            if isinstance(scope.get(name), torch.nn.Module):
                return scope[name]
        frame = frame.f_back
    return None


def _unwrapped(module: Any) -> Any:
    inner = next((getattr(module, name) for name in _WRAPPED if name in getattr(module, "_modules", ())), None)
    return module if inner is None or len(module._modules) != 1 else _unwrapped(inner)


def _submodule(module: torch.nn.Module, path: tuple[str, ...]) -> torch.nn.Module | None:
    for root in (module, _unwrapped(module)):
        try:
            return root.get_submodule(".".join(path))
        except AttributeError:
            continue
    return None


def unseen(target: Target, described: str, seen: set[str]) -> Failure:
    """What to say of a target that was not called; `seen` are the classes that were."""
    names = sorted(seen)
    close = difflib.get_close_matches(target.class_name or "", names, n=1)
    hint = (
        f"did you mean `{close[0]}`?" if close else f"it calls {', '.join(names[:12])}{', ...' if names[12:] else ''}"
    )
    return Failure(
        "usage", f"`{target.text}` is never called by {described}; {hint if names else 'it calls no module'}"
    )


def function_of(frame: FrameType) -> Any:
    """The function that a frame runs, with the variables it closes over."""
    code = frame.f_code
    owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
    for holder in (owner, *getattr(type(owner), "__mro__", ())):
        found = getattr(holder, "__dict__", {}).get(code.co_name)
        if getattr(found, "__code__", None) is code:
            return found
    return next(_users_of(code), None)


def _users_of(code: CodeType) -> Iterator[Any]:
    return (item for item in gc.get_referrers(code) if getattr(item, "__code__", None) is code)
