"""Functions of the file that a round calls: called with all rounds' values, or written where they are called."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, arranged
from forwardlens.rules.callers import arguments_of, is_static
from forwardlens.rules.lifting.counters import is_counted
from forwardlens.rules.lifting.folding import folded
from forwardlens.rules.lifting.scope import Scope
from forwardlens.rules.operations import FORWARDS
from forwardlens.source.dataflow import names_bound, names_read
from forwardlens.source.tree import Function, dotted, is_atom, walk


@dataclass(frozen=True)
class _Call:
    """A call of a function in a round: what each parameter is given, and the values of those that change."""

    node: ast.Call
    function: Function
    given: Mapping[str, ast.expr]
    values: Mapping[str, Value]
    varying: tuple[str, ...]

    def only_value(self) -> tuple[ast.expr, str, Batched] | None:
        """The argument, the parameter and the value of the only one that changes."""
        name = self.varying[0] if len(self.varying) == 1 else ""
        value = self.values.get(name)
        return (self.given[name], name, value) if isinstance(value, Batched) else None


def _read(scope: Scope, node: ast.Call, function: Function) -> _Call:
    given = arguments_of(function, _spelled_out(scope, node))
    if given is None:
        raise RefusedError(f"it is not plain what `{scope.text(node.func)}` is given")
    if not _is_plain(function):
        raise RefusedError(f"`{scope.text(node.func)}` does more than compute a value")
    varying = tuple(name for name, argument in given.items() if scope.varies(argument))
    values = {n: scope.lift(given[n]) for n in varying if not is_counted(scope, given[n])}
    return _Call(node, function, given, values, varying)


def helper(scope: Scope, node: ast.Call, function: Function) -> Value:
    """`self.encode(x[:, t])`: the function on what all rounds give it, or its body in place of the call."""
    call = _read(scope, node, function)
    whole = _on_all(scope, call)
    if whole is not None and len(whole[1]) == 1:
        return replace(whole[1][0], text=whole[0], atom=True, cut=None, view=False, fill=None)
    batched = _in_one_batch(scope, call)
    if batched is not None:
        return batched
    found = results(scope, node, function)
    if len(found) != 1:
        raise RefusedError(f"`{function.name}` gives several values")
    return found[0]


def results_of_all(scope: Scope, node: ast.Call, function: Function) -> tuple[str, list[Batched]]:
    """The call with all rounds' values, and how each of its results holds them. Raises `RefusedError`."""
    found = _on_all(scope, _read(scope, node, function))
    if found is None:
        raise RefusedError(f"`{scope.text(node.func)}` is not known to work for all rounds at once")
    return found


def results(scope: Scope, node: ast.Call, function: Function) -> list[Value]:
    """What each name of `a, b = self.gates(x[:, t])` gets: the function's body in place of the call."""
    call = _read(scope, node, function)
    if function.name in FORWARDS:
        raise RefusedError(f"`{scope.text(node.func)}` is not known to work for all rounds at once")
    return _inside(scope, call)


def _in_one_batch(scope: Scope, call: _Call) -> Batched | None:
    """The call with the samples of all rounds as one batch, if it keeps them apart."""
    only = call.only_value()
    try:
        return None if only is None else folded(scope, call.node, only[0], only[2])
    except RefusedError:
        return None


def _spelled_out(scope: Scope, node: ast.Call) -> ast.Call:
    """`f(pair[0], pair[1])` for `f(*pair)` where `pair` is all that a `zip` gives in a round."""
    args: list[ast.expr] = []
    for arg in node.args:
        name = f"{dotted(arg.value)}[" if isinstance(arg, ast.Starred) else None
        parts = sum(key.startswith(name) for loop in scope.loops for key in loop.elements) if name is not None else 0
        if not isinstance(arg, ast.Starred) or not parts:
            args.append(arg)
            continue
        each = [ast.Subscript(arg.value, ast.Constant(n), ast.Load()) for n in range(parts)]
        args += [ast.copy_location(part, arg) for part in each]
    return ast.copy_location(ast.Call(node.func, args, node.keywords), node)


def _inner(scope: Scope, function: Function, values: dict[str, Value], renamed: Mapping[str, str]) -> Scope:
    bound = {name for statement in function.body for name in names_bound(statement)} | values.keys()
    inside = frozenset(bound)
    return replace(scope, values=values, lists={}, renamed=renamed, bound=inside, caller=scope.home)


def _on_all(scope: Scope, call: _Call) -> tuple[str, list[Batched]] | None:
    """The same call with all rounds' values and what it gives, if the function's text needs no change for that."""
    only = call.only_value()
    if only is None or None in only[2].loops:
        return None
    argument, name, value = only
    free = call.given.keys() - {name}
    for right in dict.fromkeys((value.natural, value.round_rank)):
        put = arranged(value, right)
        inside = replace(put, text=name, atom=True, cut=None, view=False, boolean=False, fill=None)
        # A helper's body takes no line of its own where the text stays as it is.
        inner = replace(_inner(scope, call.function, {name: inside}, {}), before={})
        try:
            return scope.spliced(call.node, {argument: put.text}), _unchanged(inner, call.function, free)
        except RefusedError:
            continue
    return None


def _unchanged(scope: Scope, function: Function, free: Collection[str]) -> list[Batched]:
    """What a function returns for all rounds at once if its text stays as it is. Raises `RefusedError`."""
    for statement in _work(function):
        if not isinstance(statement, (ast.Assign, ast.Return)) or statement.value is None:
            raise RefusedError("a function does more than compute a value")
        value = statement.value
        parts = value.elts if isinstance(value, ast.Tuple) and isinstance(statement, ast.Return) else [value]
        lifted = [_as_written(scope, part) for part in parts]
        if isinstance(statement, ast.Return):
            return lifted
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name) or target.id in free:
            raise RefusedError("a function does more than compute a value")
        scope.values[target.id] = replace(lifted[0], text=target.id, atom=True, cut=None)
    raise RefusedError("a function returns nothing")


def _as_written(scope: Scope, node: ast.expr) -> Batched:
    value = scope.lift(node)
    if not isinstance(value, Batched) or value.text != scope.text(node):
        raise RefusedError("a function would have to be written in another way")
    return value


def _inside(scope: Scope, call: _Call) -> list[Value]:
    """What a function computes, written where it is called."""
    function, given, values = call.function, call.given, call.values
    tree = scope.sites.tree
    own = {name: _kept(scope, name, value, function) for name, value in values.items()}
    renamed: dict[str, str] = {}
    for name, argument in given.items():
        if name not in values:
            text = scope.text(argument)
            renamed[name] = text if is_atom(argument) or not names_read(argument) else f"({text})"
    bound = {name for statement in function.body for name in names_bound(statement)}
    caller = tree.function(scope.loops[0].node)
    outside = {n for n in names_read(function) if n not in bound and n not in given and n != "self"}
    hidden = outside & names_bound(caller) if caller is not None else outside
    if bound & given.keys() or hidden or caller is None:
        raise RefusedError(f"`{function.name}` uses names that mean something else where it is called")
    inner = _inner(scope, function, own, renamed)
    for statement in _work(function):
        if isinstance(statement, ast.Return) and statement.value is not None:
            value = statement.value
            return [inner.lift(part) for part in (value.elts if isinstance(value, ast.Tuple) else [value])]
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not isinstance(target, ast.Name):
            raise RefusedError(f"`{function.name}` does more than compute a value")
        if target.id in inner.values:
            raise RefusedError(f"`{target.id}` is bound twice in a round")
        inner.values[target.id] = _kept(inner, target.id, inner.lift(statement.value), function)
    raise RefusedError(f"`{function.name}` returns nothing")


def _kept(scope: Scope, name: str, value: Value, function: Function) -> Value:
    """A value that a function names, on a line of its own where it is read several times."""
    reads = sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(function))
    if reads < 2 or (isinstance(value, Batched) and value.view) or isinstance(value, Fixed):
        return value
    own = scope.name_before(value.text, name)
    return replace(value, text=own, atom=True, cut=None)


def _is_plain(function: Function) -> bool:
    """Whether a function runs its body once, from top to bottom, when it is called."""
    inside = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Lambda, ast.NamedExpr)
    return (
        isinstance(function, ast.FunctionDef)
        and (not function.decorator_list or is_static(function))
        and not any(isinstance(n, inside) for n in walk(function))
    )


def _work(function: Function) -> list[ast.stmt]:
    """A function's statements without its docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.body[1:] if documented else function.body
