"""What the source says about values that never change: numbers, and what `__init__` gives an object."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from forwardlens.rules.operations import is_torch_function
from forwardlens.source.dataflow import definition
from forwardlens.source.tree import Function, Tree, dotted, unpacked, walk

_NUMBER_FUNCTIONS = frozenset({"int", "float", "len", "abs", "round", "min", "max", "sqrt", "pow"})
_DEPTH = 6


def constructor(tree: Tree, node: ast.AST) -> Function | None:
    """The `__init__` of the class whose method `node` stands in."""
    function = tree.function(node)
    owner = tree.owner(function) if function is not None else None
    return None if owner is None else method_of(owner, "__init__")


def method_of(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    """The method of that name that a class itself defines."""
    return next((s for s in owner.body if isinstance(s, ast.FunctionDef) and s.name == name), None)


def attribute_stores(tree: Tree, node: ast.AST, name: str) -> Iterator[ast.AST]:
    """Every place of the file that may bind the attribute `name` of the object whose method `node` stands in."""
    function = tree.function(node)
    owner = tree.owner(function) if function is not None else None
    for below in _binders(tree).get(name, ()):
        receiver = below.value if isinstance(below, ast.Attribute) else below.func
        if (dotted(receiver) or "").split(".")[0] != "self" or _related(tree, below, owner):
            yield below


@lru_cache(maxsize=64)
def _binders(tree: Tree) -> Mapping[str, Sequence[ast.Attribute | ast.Call]]:
    """What may bind an attribute of any object, by the attribute's name."""
    found: dict[str, list[ast.Attribute | ast.Call]] = defaultdict(list)
    for node in walk(tree.module):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found[node.attr].append(node)
        elif isinstance(node, ast.Call):
            for name in _registered(node):
                found[name].append(node)
    return found


def _related(tree: Tree, node: ast.AST, owner: ast.ClassDef | None) -> bool:
    """Whether `self` at `node` may be an object of the class `owner`."""
    function = tree.function(node)
    other = tree.owner(function) if function is not None else None
    if owner is None or other is None or owner is other:
        return True
    names = {owner.name: owner, other.name: other}
    return any(dotted(base) in names for one in (owner, other) for base in one.bases)


def _registered(call: ast.Call) -> Iterator[str]:
    called = (dotted(call.func) or "").split(".")[-1]
    if called in {"register_buffer", "register_parameter", "add_module", "register_module", "setattr"}:
        given = [*call.args, *(k.value for k in call.keywords)]
        yield from {a.value for a in given if isinstance(a, ast.Constant) and isinstance(a.value, str)}


def attribute_value(tree: Tree, node: ast.AST, name: str) -> ast.expr | None:
    """What `self.name` is set to in `__init__`, if that is the only place in the file that sets it."""
    init = constructor(tree, node)
    stores = list(attribute_stores(tree, node, name))
    if init is None or len(stores) != 1 or tree.function(stores[0]) is not init or any(tree.loops(stores[0])):
        return None
    store = stores[0]
    if isinstance(store, ast.Call):
        given = [k.value for k in store.keywords if k.arg in {"tensor", "param"}]
        return given[0] if given else store.args[1] if len(store.args) > 1 else None
    statement = tree.parent(store)
    if dotted(store) != f"self.{name}":
        return None
    if isinstance(statement, ast.Assign) and statement.targets == [store]:
        return statement.value
    return _of_several(tree, statement, store)


def _of_several(tree: Tree, targets: ast.AST | None, store: ast.AST) -> ast.expr | None:
    """What `store` gets in `self.a, self.b = 1, 2`."""
    statement = tree.parent(targets) if targets is not None else None
    if not isinstance(statement, ast.Assign) or statement.targets != [targets]:
        return None
    return next((value for target, value in unpacked(targets, statement.value) or () if target is store), None)


def is_number(tree: Tree, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression certainly is a Python number, never a tensor."""
    if depth > _DEPTH:
        return False
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float)
    if isinstance(node, ast.UnaryOp):
        return is_number(tree, node.operand, depth + 1)
    if isinstance(node, ast.BinOp):
        return is_number(tree, node.left, depth + 1) and is_number(tree, node.right, depth + 1)
    if isinstance(node, ast.Call):
        return _number_call(tree, node, depth)
    if isinstance(node, ast.Subscript):
        return isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
    if isinstance(node, ast.Attribute):
        if dotted(node) in {"math.pi", "math.e", "math.inf", "torch.inf"}:
            return True
        value = attribute_value(tree, node, node.attr) if dotted(node) == f"self.{node.attr}" else None
        return value is not None and _built_number(tree, value, depth)
    if isinstance(node, ast.Name):
        return _named_number(tree, node, depth)
    return False


@lru_cache(maxsize=1024)
def numbers_of_object(tree: Tree, function: Function) -> frozenset[str]:
    """The attributes of `self` in a function that certainly are numbers: they share no memory with anything."""
    read = (n for n in walk(function) if isinstance(n, ast.Attribute) and dotted(n) == f"self.{n.attr}")
    return frozenset(f"self.{n.attr}" for n in read if is_number(tree, n))


def _number_call(tree: Tree, node: ast.Call, depth: int) -> bool:
    if isinstance(node.func, ast.Attribute) and node.func.attr in {"size", "dim", "numel"}:
        return bool(node.args or node.keywords) or node.func.attr != "size"
    name = dotted(node.func) or ""
    plain = name in {"int", "float", "len"} or name.startswith("math.")
    known = name in _NUMBER_FUNCTIONS and all(is_number(tree, arg, depth + 1) for arg in node.args)
    return (plain or known) and not is_torch_function(tree.module, node.func)


def _built_number(tree: Tree, value: ast.expr, depth: int) -> bool:
    """A number, or an argument of `__init__` and arithmetic with those."""
    if isinstance(value, ast.Name):
        init = tree.function(value)
        arguments = [a.arg for a in (*init.args.args, *init.args.kwonlyargs)] if init is not None else []
        return value.id in arguments or _named_number(tree, value, depth)
    if isinstance(value, ast.BinOp):
        return _built_number(tree, value.left, depth) and _built_number(tree, value.right, depth)
    return is_number(tree, value, depth + 1)


def _named_number(tree: Tree, node: ast.Name, depth: int) -> bool:
    function = tree.function(node)
    if function is None:
        return False
    init = function.name == "__init__"
    if init and node.id in {a.arg for a in (*function.args.args, *function.args.kwonlyargs)}:
        return True
    statement = definition(tree, function, node.id)
    if statement is None:
        return _module_number(tree, function, node.id, depth)
    target = statement.targets[0]
    if len(statement.targets) == 1 and isinstance(target, (ast.Tuple, ast.List)):
        value = statement.value
        sized = isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "size"
        if isinstance(value, ast.Subscript):
            value = value.value
        return sized or (isinstance(value, ast.Attribute) and value.attr == "shape")
    return is_number(tree, statement.value, depth + 1)


def _module_number(tree: Tree, function: Function, name: str, depth: int) -> bool:
    if any(isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load) for n in walk(function)):
        return False
    if any(isinstance(n, ast.arg) and n.arg == name for n in walk(function)):
        return False
    values = [
        s.value
        for s in tree.module.body
        if isinstance(s, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in s.targets)
    ]
    return len(values) == 1 and is_number(tree, values[0], depth + 1)
