"""Whether tensors made in a stretch of code can be seen after it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from forwardlens.rules.callers import own_function
from forwardlens.rules.evidence import Sites
from forwardlens.rules.numbers import NUMBER_CALLS, STORING, TO_NUMBERS, is_number, number_names
from forwardlens.rules.operations import (
    ELEMENTWISE,
    FRESH_OPERATORS,
    MAY_BE_SAME,
    MAY_WORK_IN_PLACE,
    is_torch_function,
    torch_function,
)
from forwardlens.source.dataflow import METADATA, aliases, is_inplace, may_alias, names_bound, names_read, root
from forwardlens.source.tree import Function, Tree, dotted, walk

# Functions whose result is always new memory.
_NEW = ELEMENTWISE - MAY_BE_SAME - MAY_WORK_IN_PLACE


def tensors_escape(
    sites: Sites, function: Function, block: Sequence[ast.stmt], *, by_return: bool = True
) -> str | None:
    """How a tensor made in `block` may be seen outside of it, as a phrase; None if none can be.

    `block` is the body of `function` or of a statement in it. What it returns counts only with `by_return`.
    """
    tree, numbers, local = sites.tree, number_names(sites, function), _bound(block)

    def plain(node: ast.expr) -> bool:
        return is_number(sites, node, numbers, frozenset({function}))

    for node in _walk(block):
        if by_return and isinstance(node, ast.Return) and node.value is not None and not plain(node.value):
            return "a tensor is returned"
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return "a tensor may be yielded"
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            return f"`{tree.text(node)}` keeps a tensor"
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and root(node) not in local:
            return f"`{tree.text(node)}` keeps a tensor"
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            return "a name from outside is bound"
        if isinstance(node, ast.Call) and _stores(node) and not is_torch_function(tree.module, node.func):
            stored = [*node.args, *(keyword.value for keyword in node.keywords)]
            if not all(map(plain, stored)) and not _is_private(function, node, local):
                return f"`{tree.text(node)}` keeps a tensor"
    inside = {id(node) for node in _walk(block)}
    for node in walk(function):
        if id(node) in inside or not isinstance(node, ast.Name) or node.id not in local:
            continue
        if isinstance(node.ctx, ast.Load) and not plain(node) and not _is_read_out(tree, node, plain):
            return f"`{node.id}` is read after the block"
    return None


def _is_private(function: Function, call: ast.Call, local: set[str]) -> bool:
    """Whether a collection that gets a value is made in the function and goes by names of the block only."""
    assert isinstance(call.func, ast.Attribute)
    place = root(call.func.value)
    parameters = {n.arg for n in walk(function) if isinstance(n, ast.arg)}
    return place is not None and aliases(function, place) <= local - parameters


def _stores(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in STORING


def _walk(block: Sequence[ast.stmt]) -> Iterator[ast.AST]:
    for statement in block:
        yield from walk(statement)


def _bound(block: Sequence[ast.stmt]) -> set[str]:
    return {name for statement in block for name in names_bound(statement)}


def _is_read_out(tree: Tree, name: ast.Name, plain: Callable[[ast.expr], bool]) -> bool:
    """Whether a read is of facts only, or becomes numbers at once and meets no other tensor on the way.

    `y.shape`, `y.argmax(-1).cpu().tolist()`, `float(y[0])`.
    """
    node: ast.AST = name
    while True:
        parent = tree.parent(node)
        if isinstance(parent, ast.Attribute):
            if parent.attr in METADATA:
                return True
            call = tree.parent(parent)
            if not isinstance(call, ast.Call) or call.func is not parent:
                return False
            if parent.attr in TO_NUMBERS:
                return True
            if not all(map(plain, (*call.args, *(k.value for k in call.keywords)))) or is_inplace(parent.attr):
                return False
            node = call
        elif isinstance(parent, ast.Subscript) and isinstance(parent.ctx, ast.Load) and plain(parent.slice):
            node = parent
        else:
            return isinstance(parent, ast.Call) and dotted(parent.func) in NUMBER_CALLS and node in parent.args


def keeps_state(functions: Sequence[Function]) -> bool:
    """Whether one of the functions stores something on an object or in a global, where it outlives the call."""
    for function in functions:
        if function.name == "__init__":
            continue
        if any("cache" in (n.attr if isinstance(n, ast.Attribute) else n.id) for n in _decorators(function)):
            return True
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


def _decorators(function: Function) -> Iterator[ast.Name | ast.Attribute]:
    return (n for d in function.decorator_list for n in walk(d) if isinstance(n, (ast.Name, ast.Attribute)))


def differentiates(functions: Sequence[Function]) -> bool:
    """Whether one of the functions asks for gradients, or turns recording them on, by itself."""
    names = {"autograd", "backward", "enable_grad", "requires_grad_", "requires_grad", "grad_fn"}
    attributes = names | {"func", "grad"}
    return any(
        (isinstance(node, ast.Attribute) and node.attr in attributes)
        or (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.keyword) and node.arg == "requires_grad")
        for function in functions
        for node in walk(function)
    )


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


def is_fresh(sites: Sites, node: ast.expr, seen: frozenset[Function] = frozenset()) -> bool:
    """Whether a value certainly shares no memory with anything that has a name.

    `seen` are the functions whose results are being asked about.
    """
    if isinstance(node, ast.Call):
        ran = sites.outermost(node)
        if ran and ran <= FRESH_OPERATORS:
            return True
        if torch_function(sites.tree.module, node.func) in _NEW and not any(
            k.arg in {"out", None} for k in node.keywords
        ):
            return True
        function = own_function(sites, node)
        if function is not None and function not in seen and _returns_fresh(sites, function, seen | {function}):
            return True
    return not isinstance(node, (ast.Constant, ast.Lambda)) and not may_alias(node)


def _returns_fresh(sites: Sites, function: Function, seen: frozenset[Function]) -> bool:
    """Whether all that a function returns is made in the expression that returns it."""
    returned = [n.value for n in walk(function) if isinstance(n, ast.Return)]
    plain = not function.decorator_list and not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function))
    return plain and bool(returned) and all(v is not None and is_fresh(sites, v, seen) for v in returned)


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
                return not (isinstance(parent.func, ast.Name) and parent.func.id in NUMBER_CALLS)
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
