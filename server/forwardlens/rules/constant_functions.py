"""Functions of a file that give the same tensors whenever they are given the same numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from forwardlens.rules.callers import arguments_of, is_property, is_static, own_function, own_property
from forwardlens.rules.constants import numbers_of_object
from forwardlens.rules.evidence import Sites
from forwardlens.rules.operations import (
    ELEMENTWISE,
    JOINS,
    REDUCTIONS,
    VIEWS,
    is_torch_function,
    torch_namespaces,
)
from forwardlens.source.dataflow import aliases, bindings, changes, names_bound
from forwardlens.source.tree import Function, dotted, walk

# Made of sizes and numbers, always the same. Matrix products are left out: autocast gives them another type.
_CREATIONS = frozenset(
    """arange linspace logspace eye zeros ones full tensor as_tensor hann_window hamming_window blackman_window
    bartlett_window kaiser_window tril_indices triu_indices zeros_like ones_like full_like""".split()
)
_ONE = (
    _CREATIONS
    | ELEMENTWISE
    | JOINS
    | (REDUCTIONS - {"max", "min"})
    | (VIEWS - {"chunk", "split", "unbind"})
    | {"cumsum", "flip", "tril", "triu", "outer", "repeat", "tile", "roll", "index_select", "one_hot"}
    | {"reshape", "flatten", "view", "cumprod", "sinc", "deg2rad", "diag", "diagflat", "new_zeros", "new_ones"}
)
_SEVERAL = frozenset({"chunk", "split", "unbind", "max", "min", "meshgrid", "size", "tolist", "item", "dim", "numel"})
_IN_PLACE = frozenset(
    "add_ sub_ mul_ div_ fill_ zero_ masked_fill_ fill_diagonal_ tril_ triu_ clamp_ exp_ sqrt_ copy_".split()
)
_OF_LISTS = frozenset({"append", "extend"})
_BUILT_IN = frozenset(
    "range slice len int float bool abs min max sum enumerate zip list tuple sorted reversed round".split()
)
# Keywords that put a tensor elsewhere or tie it to something.
_TIED = frozenset({"out", "requires_grad", "pin_memory", "generator", None})
_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.For, ast.If, ast.Return, ast.Expr, ast.Assert, ast.Pass)
_REFUSED = (
    ast.Lambda,
    ast.NamedExpr,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.Starred,
    ast.JoinedStr,
    ast.Global,
    ast.Nonlocal,
    ast.Dict,
    ast.Set,
)
_DEPTH = 4


@dataclass(frozen=True)
class Made:
    """What a call gives in every forward: `count` tensors in a tuple, or one where that is None.

    `devices` are its arguments that only say where the tensors are made.
    """

    function: Function
    count: int | None
    devices: tuple[ast.expr, ...]


def constant_tensors(
    sites: Sites, call: ast.Call | ast.Attribute, is_constant: Callable[[ast.expr], bool], *, as_run: bool = False
) -> Made | None:
    """What a call of a function of the file gives, or a property of it, if that is the same tensors each time.

    With `as_run` of the object that ran; else of any object, of a class too that has another method in its place.
    """
    function = own_function(sites, call) if isinstance(call, ast.Call) else own_property(sites, call)
    if function is None or not (as_run or _is_of_the_same_class(sites, call, function)):
        return None
    given = _given(sites, call, function, is_constant)
    if given is None or not _is_pure(sites, function, is_constant, _DEPTH):
        return None
    result = function.body[-1]
    value = result.value if isinstance(result, ast.Return) else None
    if isinstance(value, ast.Tuple):
        several = len(value.elts) > 0 and all(_is_tensor(sites, function, e) for e in value.elts)
        return Made(function, len(value.elts), given) if several else None
    made = value is not None and (_is_tensor(sites, function, value) or (as_run and bool(sites.outermost(value))))
    return Made(function, None, given) if made else None


def _is_of_the_same_class(sites: Sites, call: ast.Call | ast.Attribute, function: Function) -> bool:
    """Whether a method is that of the class around the call, and no class of the file has another one in its place."""
    tree, caller = sites.tree, sites.tree.function(call)
    owner = tree.owner(function)
    if owner is None:
        return True
    others = (tree.owner(f) for f in tree.functions() if f.name == function.name and f is not function)
    replaced = any(o is not None and owner.name in {dotted(base) for base in o.bases} for o in others)
    return caller is not None and tree.owner(caller) is owner and not replaced


def functions_of(sites: Sites, function: Function) -> set[Function]:
    """A function with those of the file that it calls."""
    found, todo = {function}, [function]
    while todo:
        for call in (n for n in walk(todo.pop()) if isinstance(n, ast.Call)):
            inner = own_function(sites, call)
            if inner is not None and inner not in found:
                found.add(inner)
                todo.append(inner)
    return found


def _given(
    sites: Sites, call: ast.Call | ast.Attribute, function: Function, is_constant: Callable[[ast.expr], bool]
) -> tuple[ast.expr, ...] | None:
    """The devices among the arguments of a call, all others of which are constants. A property is given none."""
    given = arguments_of(function, call) if isinstance(call, ast.Call) else {}
    if given is None:
        return None
    devices: list[ast.expr] = []
    for name, value in given.items():
        reads = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name]
        places = [read for read in reads if _is_place(sites, read)]
        if _is_device(value) and len(places) == len(reads):
            devices.append(value)
        elif not (isinstance(value, ast.Constant) or is_constant(value)) or (places and not _is_none(value)):
            return None
    return tuple(devices)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_device(node: ast.expr) -> bool:
    return (dotted(node) or "").split(".")[-1] in {"device", "dev"}


def _is_place(sites: Sites, read: ast.Name) -> bool:
    """Whether a read only says on which device something is made."""
    keyword = sites.tree.parent(read)
    call = sites.tree.parent(keyword) if isinstance(keyword, ast.keyword) and keyword.arg == "device" else None
    return isinstance(call, ast.Call) and _creates(sites, call)


def _creates(sites: Sites, call: ast.Call) -> bool:
    made = isinstance(call.func, ast.Attribute) and call.func.attr in _CREATIONS
    return made and is_torch_function(sites.tree.module, call.func)


def _is_pure(sites: Sites, function: Function, is_constant: Callable[[ast.expr], bool], depth: int) -> bool:
    if depth == 0 or isinstance(function, ast.AsyncFunctionDef):
        return False
    plain = not function.decorator_list or is_static(function) or is_property(function)
    if not plain or not isinstance(function.body[-1], ast.Return):
        return False
    for node in (n for statement in function.body for n in walk(statement)):
        if isinstance(node, _REFUSED) or (isinstance(node, ast.stmt) and not _is_allowed(function, node)):
            return False
        if isinstance(node, ast.Call) and not _is_pure_call(sites, node, is_constant, depth):
            return False
        if isinstance(node, ast.Name) and not _is_known_name(sites, function, node, is_constant):
            return False
        if isinstance(node, ast.Attribute) and not _is_known_attribute(sites, node, is_constant):
            return False
    return _changes_only_its_own(sites, function)


def _is_allowed(function: Function, node: ast.stmt) -> bool:
    return isinstance(node, _STATEMENTS) and (not isinstance(node, ast.Return) or node is function.body[-1])


def _is_pure_call(sites: Sites, call: ast.Call, is_constant: Callable[[ast.expr], bool], depth: int) -> bool:
    func = call.func
    if any(k.arg in _TIED for k in call.keywords):
        return False
    if isinstance(func, ast.Attribute) and func.attr in {"to", "type"} and not _is_cast(call):
        return False
    if any(k.arg == "device" and not _is_parameter(sites, k.value) for k in call.keywords):
        return False
    if is_torch_function(sites.tree.module, func):
        assert isinstance(func, ast.Attribute)
        return func.attr in _ONE | _SEVERAL
    inner = own_function(sites, call)
    if inner is not None:
        given = arguments_of(inner, call)
        plain = given is not None and not any(k.arg == "device" for k in call.keywords)
        return plain and _is_pure(sites, inner, is_constant, depth - 1)
    if isinstance(func, ast.Name):
        return func.id in _BUILT_IN
    if not isinstance(func, ast.Attribute) or (dotted(func) or "").startswith("self."):
        return False
    return dotted(func.value) == "math" or func.attr in _ONE | _SEVERAL | _IN_PLACE | _OF_LISTS


def _is_cast(call: ast.Call) -> bool:
    """`.to(torch.float32)`: no device is named."""
    given = [*call.args, *(k.value for k in call.keywords)]
    return all((dotted(value) or "").startswith("torch.") for value in given)


def _is_parameter(sites: Sites, node: ast.expr) -> bool:
    function = sites.tree.function(node)
    if not isinstance(node, ast.Name) or function is None:
        return False
    return any(isinstance(b, ast.arg) for b in bindings(function, node.id))


def _is_known_name(sites: Sites, function: Function, node: ast.Name, is_constant: Callable[[ast.expr], bool]) -> bool:
    tree = sites.tree
    parent = tree.parent(node)
    if node.id == "self":
        return isinstance(parent, ast.Attribute)
    if not isinstance(node.ctx, ast.Load) or bindings(function, node.id):
        return True
    if node.id == "math" or node.id in {n.split(".")[0] for n in torch_namespaces(tree.module)}:
        return isinstance(parent, ast.Attribute)
    called = isinstance(parent, ast.Call) and parent.func is node
    around = [above for above in tree.ancestors(function) if isinstance(above, Function)]
    shadowed = any(bindings(above, node.id) for above in around)
    return called or (not shadowed and is_constant(node))


def _is_known_attribute(sites: Sites, node: ast.Attribute, is_constant: Callable[[ast.expr], bool]) -> bool:
    """Attributes of the object are constants or methods that are called; none is set."""
    if not isinstance(node.ctx, ast.Load):
        return False
    if dotted(node) != f"self.{node.attr}":
        return True
    call = sites.tree.parent(node)
    return (isinstance(call, ast.Call) and call.func is node) or is_constant(node)


def _changes_only_its_own(sites: Sites, function: Function) -> bool:
    own = names_bound(function) - {n.arg for n in walk(function) if isinstance(n, ast.arg)}
    numbers = numbers_of_object(sites.tree, function)
    return all(
        place is not None and all(s.split(".")[0] in own or s in numbers for s in aliases(function, place))
        for _, place in changes(function)
    )


def _is_tensor(
    sites: Sites, function: Function, node: ast.expr, depth: int = 8, seen: frozenset[str] = frozenset()
) -> bool:
    """Whether an expression of a pure function certainly is a tensor, if the names `seen` are."""

    def inner(part: ast.expr) -> bool:
        return depth > 0 and _is_tensor(sites, function, part, depth - 1, seen)

    if depth < 0:
        return False
    if isinstance(node, ast.BinOp):
        return inner(node.left) or inner(node.right)
    if isinstance(node, ast.Compare):
        return inner(node.left) or any(inner(c) for c in node.comparators)
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not) and inner(node.operand)
    if isinstance(node, ast.Subscript):
        return inner(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr in {"T", "mT"} and inner(node.value)
    if isinstance(node, ast.Name):
        if node.id in seen:
            return True
        values, known = _values(sites, function, node.id), seen | {node.id}
        return bool(values) and all(v is not None and _is_tensor(sites, function, v, depth - 1, known) for v in values)
    if not isinstance(node, ast.Call):
        return False
    called = own_function(sites, node)
    if called is not None:
        last = called.body[-1]
        value = last.value if isinstance(last, ast.Return) else None
        return depth > 0 and value is not None and _is_tensor(sites, called, value, depth - 1)
    if is_torch_function(sites.tree.module, node.func):
        return isinstance(node.func, ast.Attribute) and node.func.attr in _ONE
    return isinstance(node.func, ast.Attribute) and node.func.attr in _ONE | _IN_PLACE and inner(node.func.value)


def _values(sites: Sites, function: Function, name: str) -> list[ast.expr | None]:
    """What a name is set to; None for what is not plain to see. An operator in place leaves a tensor one."""
    found: list[ast.expr | None] = []
    for bound in bindings(function, name):
        statement = sites.tree.parent(bound)
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            found.append(statement.value)
        elif not isinstance(statement, ast.AugAssign):
            found.append(_of_meshgrid(sites, statement))
    return found


def _of_meshgrid(sites: Sites, target: ast.AST | None) -> ast.expr | None:
    """One of the tensors that `y, x = torch.meshgrid(...)` makes is as much a tensor as what it is made of."""
    statement = sites.tree.parent(target) if isinstance(target, ast.Tuple) else None
    value = statement.value if isinstance(statement, ast.Assign) else None
    if not isinstance(value, ast.Call) or not isinstance(value.func, ast.Attribute) or value.func.attr != "meshgrid":
        return None
    return value.args[0] if value.args else None
