"""Whether tensors made in a stretch of code can be seen after it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from forwardlens.rules.evidence import Sites
from forwardlens.rules.operations import FRESH_OPERATORS, is_torch_function
from forwardlens.source.dataflow import METADATA, may_alias, names_bound, names_read, root
from forwardlens.source.tree import Function, Tree, dotted, walk

# Methods whose result is a Python number, a list of them, or an array: nothing that autograd can follow.
_TO_NUMBERS = frozenset({"tolist", "item", "numpy", "size", "dim", "numel", "nelement"})
_NUMBER_CALLS = frozenset({"float", "int", "bool", "len", "str", "repr", "round"})


def tensors_escape(tree: Tree, function: Function, block: Sequence[ast.stmt]) -> str | None:
    """How a tensor made in `block` may be seen outside of it, as a phrase; None if none can be.

    `block` is the body of `function` or of a statement in it.
    """
    numbers = _number_names(function)
    for node in _walk(block):
        if isinstance(node, ast.Return) and node.value is not None and not is_number(node.value, numbers):
            return "a tensor is returned"
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return "a tensor may be yielded"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return f"`{tree.text(node)}` keeps a tensor"
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and root(node) not in _bound(block):
            return f"`{tree.text(node)}` keeps a tensor"
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return "a name from outside is bound"
        stored = node.args if isinstance(node, ast.Call) and _stores(node) else []
        if not all(is_number(a, numbers) for a in stored) and _root_of_call(node) not in _bound(block):
            return f"`{tree.text(node)}` keeps a tensor"  # pyright: ignore[reportArgumentType]
    return _read_outside(tree, function, block, numbers)


def _root_of_call(node: ast.AST) -> str | None:
    return root(node.func) if isinstance(node, ast.Call) else None


def _walk(block: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in block:
        yield from walk(statement)


def _bound(block: Sequence[ast.stmt]) -> set[str]:
    return {name for statement in block for name in names_bound(statement)}


def _stores(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in {"append", "extend", "add", "update", "insert"}


def _read_outside(tree: Tree, function: Function, block: Sequence[ast.stmt], numbers: set[str]) -> str | None:
    inside = {id(node) for node in _walk(block)}
    names = _bound(block) - numbers
    for node in walk(function):
        if id(node) in inside or not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            continue
        if node.id in names and not _asks_metadata(tree, node):
            return f"`{node.id}` is read after the block"
    return None


def _asks_metadata(tree: Tree, node: ast.Name) -> bool:
    parent = tree.parent(node)
    return isinstance(parent, ast.Attribute) and parent.attr in METADATA


def _number_names(function: Function) -> set[str]:
    """Names that a function binds to numbers only."""
    values: dict[str, list[ast.expr]] = {}
    stores: dict[str, int] = {}
    for node in walk(function):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) == 1 and isinstance(targets[0], ast.Name):
                values.setdefault(targets[0].id, []).append(node.value)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            stores[node.id] = stores.get(node.id, 0) + 1
        if isinstance(node, ast.arg):
            stores[node.arg] = stores.get(node.arg, 0) + 1
    # Suppose all of them are numbers, and drop those of which that cannot be true until nothing changes.
    numbers = {name for name, given in values.items() if len(given) == stores[name]}
    while True:
        left = {name for name in numbers if all(is_number(value, numbers) for value in values[name])}
        if left == numbers:
            return numbers
        numbers = left


def is_number(node: ast.expr, numbers: set[str]) -> bool:
    """Whether a value certainly holds no tensor: numbers, strings, arrays, and collections of them."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Name):
        return node.id in numbers
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute):
            return node.func.attr in _TO_NUMBERS
        return dotted(node.func) in _NUMBER_CALLS
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return all(is_number(element, numbers) for element in node.elts)
    if isinstance(node, ast.Dict):
        return all(is_number(value, numbers) for value in node.values)
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return is_number(node.elt, numbers)
    if isinstance(node, ast.BinOp):
        return is_number(node.left, numbers) and is_number(node.right, numbers)
    if isinstance(node, ast.Subscript):
        return is_number(node.value, numbers)
    if isinstance(node, ast.IfExp):
        return is_number(node.body, numbers) and is_number(node.orelse, numbers)
    return isinstance(node, ast.JoinedStr)


def keeps_state(functions: Sequence[Function]) -> bool:
    """Whether one of the functions stores something on an object or in a global, where it outlives the call."""
    for function in functions:
        if function.name == "__init__":
            continue
        for node in walk(function):
            if isinstance(node, (ast.Global, ast.Nonlocal)):
                return True
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                return True
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and "." in (root(node) or "."):
                return True
            if isinstance(node, ast.Call) and _stores(node) and "." in (root(node.func) or ".").rpartition(".")[0]:
                return True
    return False


def trains(module: ast.Module) -> str | None:
    """A sign that the code of a file takes part in training, as its text; None if there is none."""
    for node in walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            name = node.func.attr
            if name in {"backward", "zero_grad", "requires_grad_"}:
                return f".{name}()"
            if name == "train" and not _is_false(node):
                return ".train()"
        if isinstance(node, ast.Attribute) and node.attr in {"optim", "autograd", "training", "grad"}:
            return f".{node.attr}"
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            modules = [alias.name for alias in node.names] + [getattr(node, "module", None) or ""]
            if any("optim" in name.split(".") for name in modules):
                return "torch.optim"
    return None


def _is_false(call: ast.Call) -> bool:
    given = [*call.args, *(k.value for k in call.keywords)]
    return len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False


def evaluates(module: ast.Module) -> bool:
    """Whether the file puts a model into evaluation mode."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "eval"
        and not node.args
        and not names_read(node.func) & {"pd", "df"}
        for node in walk(module)
    )


def is_fresh(sites: Sites, node: ast.expr) -> bool:
    """Whether a value certainly shares no memory with anything that has a name."""
    if isinstance(node, ast.Call):
        ran = sites.outermost(node)
        if ran and ran <= FRESH_OPERATORS:
            return True
    return not isinstance(node, (ast.Constant, ast.Lambda)) and not may_alias(node)


def private_since(sites: Sites, statement: ast.stmt, name: str) -> ast.Assign | None:
    """The assignment that gave `name` memory of its own, which nothing else shares when `statement` runs."""
    tree = sites.tree
    inner, between = statement, list[ast.stmt]()
    while True:
        block = tree.block(inner)
        for earlier in reversed(block[: block.index(inner)]):
            if name in names_bound(earlier):
                if not isinstance(earlier, ast.Assign) or not all(isinstance(t, ast.Name) for t in earlier.targets):
                    return None
                alone = len(earlier.targets) == 1 and is_fresh(sites, earlier.value)
                return earlier if alone and not any(_may_share(tree, s, name) for s in between) else None
            between.append(earlier)
        parent = tree.parent(inner)
        if not isinstance(parent, ast.stmt) or isinstance(parent, Function | ast.ClassDef):
            return None
        # In a loop, what stands behind the statement runs before its next round.
        between.append(parent)
        inner = parent


def _may_share(tree: Tree, statement: ast.stmt, name: str) -> bool:
    """Whether a statement may give the memory of `name` to something else, or bind the name again."""
    for node in walk(statement):
        if isinstance(node, ast.Name) and node.id == name:
            if isinstance(node.ctx, ast.Store):
                return True
            parent = tree.parent(node)
            if isinstance(parent, ast.Call) and not is_torch_function(tree.module, parent.func):
                return not (isinstance(parent.func, ast.Name) and parent.func.id in _NUMBER_CALLS)
            if isinstance(parent, (ast.Tuple, ast.List, ast.Dict, ast.Lambda)):
                return True
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            stored = not all(isinstance(target, ast.Subscript) for target in targets)
            if stored and any(place.split(".")[0] == name for place in may_alias(node.value)):
                return True
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)) and any(
            place.split(".")[0] == name for place in may_alias(node.iter)
        ):
            return True
    return False
