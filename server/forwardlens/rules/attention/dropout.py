"""Dropout of the weights: what is dropped from, and with what rate when."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from forwardlens.rules.constants import attribute_value
from forwardlens.rules.evidence import Sites
from forwardlens.rules.operations import torch_function
from forwardlens.source.dataflow import bindings
from forwardlens.source.tree import Function, Tree, argument, dotted, walk

_DRAWS = {"aten::native_dropout", "aten::bernoulli_"}


@dataclass(frozen=True)
class Dropout:
    """`rate` and `active`, the condition of it, as texts. `assumed` if only the run says that the module is one."""

    inner: ast.expr
    rate: str
    active: str | None
    random: bool
    assumed: str | None = None


def dropout_of(sites: Sites, call: ast.Call) -> Dropout | str | None:
    """The dropout that a call is; the reason where it has no counterpart; None if it is something else."""
    tree = sites.tree
    cost = sites.cost(call)
    random = cost is not None and any(op.name in _DRAWS for op in cost.ops)
    if torch_function(tree.module, call.func) == "dropout":
        return _function(tree, call, random)
    if len(call.args) != 1 or call.keywords or isinstance(call.args[0], ast.Starred):
        return None
    inner, func = call.args[0], call.func
    if isinstance(func, ast.Call):
        rate = _rate_of_new(tree, func)
        return Dropout(inner, rate, None, random) if rate is not None else None
    name = dotted(func)
    if name is None:
        return None
    # What is None is not called.
    kinds = {_kind(value) for value in _values(tree, call, func)} - {"none"}
    if kinds == {"dropout"}:
        return Dropout(inner, f"{name}.p", f"{name}.training", random)
    if kinds == {"dropout", "identity"}:
        return Dropout(inner, f'getattr({name}, "p", 0.0)', f"{name}.training", random)
    known_otherwise = bool(kinds - {"dropout", "identity", None})
    if not known_otherwise and sites.outermost(call) and sites.outermost(call) <= {"aten::dropout"}:
        return Dropout(inner, f"{name}.p", f"{name}.training", random, name)
    return None


def _function(tree: Tree, call: ast.Call, random: bool) -> Dropout | str | None:
    inner = argument(call, 0, "input")
    if inner is None:
        return None
    known = {"input", "p", "training", "train", "inplace"}
    if any(k.arg not in known for k in call.keywords) or len(call.args) > 3:
        return "the dropout has options that it does not know"
    p = argument(call, 1, "p")
    training = argument(call, 2, "training") or argument(call, 2, "train")
    if isinstance(training, ast.Constant) and training.value is True:
        training = None
    return Dropout(
        inner, "0.5" if p is None else closed(tree, p), None if training is None else closed(tree, training), random
    )


def closed(tree: Tree, node: ast.expr) -> str:
    """The text of `node` as it may stand beside `if` and `and`."""
    text = tree.text(node)
    return f"({text})" if isinstance(node, (ast.BoolOp, ast.IfExp, ast.Lambda)) else text


def _rate_of_new(tree: Tree, call: ast.Call) -> str | None:
    """`0.1` for `nn.Dropout(0.1)`, a module that is always in training where it is made for one call."""
    if _kind(call) != "dropout":
        return None
    p = argument(call, 0, "p")
    return "0.5" if p is None else tree.text(p)


def _kind(value: ast.expr | None) -> str | None:
    """`dropout`, `identity`, `none`, another name of a class or function, or None where nothing is known."""
    if isinstance(value, ast.Constant) and value.value is None:
        return "none"
    if not isinstance(value, ast.Call):
        return None
    return (dotted(value.func) or "other").rpartition(".")[2].lower()


def _values(tree: Tree, call: ast.AST, func: ast.expr | None) -> list[ast.expr | None]:
    """What the module that is called may be; None stands for what is not plain to see."""
    if isinstance(func, ast.IfExp):
        return [*_values(tree, call, func.body), *_values(tree, call, func.orelse)]
    if isinstance(func, ast.Attribute):
        value = attribute_value(tree, call, func.attr) if dotted(func) == f"self.{func.attr}" else None
        return [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    function = tree.function(call)
    if not isinstance(func, ast.Name) or function is None:
        return [func]
    bound = bindings(function, func.id)
    if len(bound) != 1 or not isinstance(bound[0], ast.arg):
        return [None]
    given = _given(tree, function, func.id)
    return [
        value
        for argument, around in given
        for value in ([None] if isinstance(argument, ast.Name) else _values(tree, around, argument))
    ] or [None]


def _given(tree: Tree, function: Function, name: str) -> list[tuple[ast.expr | None, ast.Call]]:
    """What the calls of a function in this file give its parameter `name`, with the calls."""
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    if name not in names:
        return []
    called = {function.name} | _other_names(tree, function.name)
    calls = [
        node
        for node in walk(tree.module)
        if isinstance(node, ast.Call) and (dotted(node.func) or "").rpartition(".")[2] in called
    ]
    bound = tree.owner(function) is not None and names[:1] == ["self"]
    names = names[1:] if bound else names
    plain = not spec.vararg and not spec.kwonlyargs and not spec.defaults
    return [(_argument(call, names, name, exact=plain), call) for call in calls]


def _other_names(tree: Tree, name: str) -> set[str]:
    """`read` for `read = staticmethod(function)`, in a class or beside the function."""
    found: set[str] = set()
    for node in walk(tree.module):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            value = node.value
            if isinstance(value, ast.Call) and dotted(value.func) == "staticmethod" and len(value.args) == 1:
                value = value.args[0]
            target = dotted(node.targets[0])
            if dotted(value) == name and target is not None:
                found.add(target.rpartition(".")[2])
    return found


def _argument(call: ast.Call, names: list[str], name: str, *, exact: bool) -> ast.expr | None:
    """What a call gives a parameter, counted from the end behind a star where every parameter is given."""
    stars = [n for n, arg in enumerate(call.args) if isinstance(arg, ast.Starred)]
    position = names.index(name)
    if not stars:
        return argument(call, position, name)
    from_end = len(names) - position
    behind = len(stars) == 1 and exact and not call.keywords and from_end < len(call.args) - stars[0]
    return call.args[-from_end] if behind else None
