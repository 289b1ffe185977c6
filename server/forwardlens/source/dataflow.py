"""What statements read, bind and change.

Answers are about names and dotted places (`scores`, `self.cache`). They err towards "reads" and "changes": a fix is
only safe when nothing here speaks against it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import count

from forwardlens.source.tree import Function, Tree, dotted, unpacked, walk

# Containers' methods that change them.
_CONTAINER_CHANGES = frozenset(
    {"append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "popleft", "appendleft", "sort"}
)
# Attributes that are facts about a tensor: reading them reads no element.
METADATA = frozenset(
    {"shape", "size", "dtype", "device", "ndim", "dim", "numel", "requires_grad", "is_cuda", "layout", "nelement"}
)


@lru_cache(maxsize=8192)
def names_read(node: ast.AST) -> frozenset[str]:
    return frozenset(n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


@lru_cache(maxsize=8192)
def names_bound(node: ast.AST) -> frozenset[str]:
    """Names that `node` may bind in the function it stands in, comprehension variables included."""
    found: set[str] = set()
    for n in walk(node):
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)):
            found.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler)) and n.name:
            found.add(n.name)
        elif isinstance(n, ast.alias):
            found.add((n.asname or n.name).split(".")[0])
    return frozenset(found)


def root(node: ast.AST) -> str | None:
    """The dotted place an expression reaches into: `scores` for `scores[:, 0].view(-1)`."""
    while True:
        place = dotted(node)
        if place is not None:
            return place
        if isinstance(node, (ast.Subscript, ast.Attribute, ast.Starred)):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            return None


def is_inplace(name: str) -> bool:
    """PyTorch's convention: `mul_` changes its receiver. `requires_grad_` and dunders are something else."""
    return name.endswith("_") and not name.endswith("__") and name != "requires_grad_"


@lru_cache(maxsize=2048)
def changes(node: ast.AST) -> tuple[tuple[ast.AST, str | None], ...]:
    """Every (node, place) where `node` changes an object in place; place None if it is unclear which."""
    return tuple(change for below in walk(node) for change in _changes_of(below))


def _changes_of(node: ast.AST) -> Iterator[tuple[ast.AST, str | None]]:
    if isinstance(node, ast.AugAssign):
        yield node, root(node.target)
    elif isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, (ast.Store, ast.Del)):
        yield node, (dotted(node) if isinstance(node, ast.Attribute) else None) or root(node)
    elif isinstance(node, ast.Call):
        yield from _call_changes(node)


def _call_changes(call: ast.Call) -> Iterator[tuple[ast.AST, str | None]]:
    if isinstance(call.func, ast.Attribute) and (is_inplace(call.func.attr) or call.func.attr in _CONTAINER_CHANGES):
        receiver = root(call.func.value)
        if receiver is not None and receiver.split(".")[0] in {"torch", "F", "nn", "init"}:
            # `nn.init.normal_(w)`, `torch.relu_(x)`: the function changes its first argument.
            yield call, root(call.args[0]) if call.args else None
        else:
            yield call, receiver
    for keyword in call.keywords:
        if keyword.arg == "out":
            yield call, root(keyword.value)
        elif keyword.arg == "inplace":
            yield call, root(call.args[0]) if call.args else None


def overlap(one: str, other: str) -> bool:
    """Whether two dotted places may be the same object or one part of the other."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


# Calls whose result shares no memory with their arguments. Anything else may hand back what it was given.
_FRESH = frozenset(
    """arange zeros ones full empty rand randn randint tensor eye linspace zeros_like ones_like full_like empty_like
    rand_like randn_like cat stack concat where matmul bmm mm addmm einsum softmax log_softmax clone sum mean amax amin
    argmax argmin cumsum exp log sqrt tanh sigmoid relu gelu silu add sub mul div pow masked_fill embedding linear
    size tolist item numel dim gather index_select sort topk norm maximum minimum gt lt ge le eq ne logical_and
    logical_or logical_not logical_xor isnan isinf isfinite any all new_zeros new_ones new_empty new_full new_tensor
    baddbmm abs neg sign square reciprocal rsqrt log1p log2 expm1 sin cos tan erf floor ceil round clamp clip fmod
    remainder lerp softplus logsigmoid logsumexp prod std var""".split()
)
# As methods of tensors `float` and `int` may give back what they were called on.
_FRESH_BUILTINS = _FRESH | {"len", "range", "int", "float"}


def may_alias(node: ast.expr) -> set[str]:
    """The places that the value of an expression may share memory with."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        place = dotted(node)
        if isinstance(node, ast.Attribute) and node.attr in METADATA:
            return set()
        return {place} if place is not None else may_alias_of_part(node)
    if isinstance(node, (ast.Subscript, ast.Starred, ast.NamedExpr)):
        return may_alias(node.value)
    if isinstance(node, ast.IfExp):
        return may_alias(node.body) | may_alias(node.orelse)
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return {place for element in node.elts for place in may_alias(element)}
    if isinstance(node, ast.Call):
        return _call_alias(node)
    if isinstance(node, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        return may_alias(node.elt) | {place for g in node.generators for place in may_alias(g.iter)}
    if isinstance(node, ast.BoolOp):
        return {place for value in node.values for place in may_alias(value)}
    return set()


def may_alias_of_part(node: ast.expr) -> set[str]:
    place = root(node)
    return set() if place is None else {place}


def _call_alias(call: ast.Call) -> set[str]:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else dotted(call.func)
    fresh = _FRESH if isinstance(call.func, ast.Attribute) else _FRESH_BUILTINS
    if name in fresh and not any(keyword.arg in {"out", "inplace"} for keyword in call.keywords):
        return set()
    found = {place for arg in call.args for place in may_alias(arg)}
    found |= {place for keyword in call.keywords for place in may_alias(keyword.value)}
    if isinstance(call.func, ast.Attribute) and not _is_namespace(call.func.value):
        found |= may_alias(call.func.value)
    return found


def _is_namespace(node: ast.expr) -> bool:
    """`torch`, `F`, `self.layers[0]` as in `self.word(x)`: the callee itself is not part of the result."""
    place = dotted(node)
    return place is not None and place.split(".")[0] in {"torch", "F", "nn", "math", "np", "self"}


@lru_cache(maxsize=1024)
def aliases(function: ast.AST, place: str) -> frozenset[str]:
    """All places in `function` that may share memory with `place`, itself included. Ignores the order of statements."""
    return aliases_of_all(function, {place})


def aliases_of_all(function: ast.AST, places: Iterable[str]) -> frozenset[str]:
    """All places in `function` that may share memory with one of `places`, themselves included."""
    links, ties = _links(function), _ties(function)
    known, seen = {*places}, set[tuple[int, str]]()
    todo = [*known]
    for place in todo:
        wholes = (tie for part in _parts(place) - {place} for tie in ties.get(part, ()) if tie[1] == part)
        for tie in {*ties.get(place, ()), *wholes} - seen:
            (targets, values), other = links[tie[0]], tie[1]
            seen.add(tie)
            grown = (targets | {other} | (values if other in targets else set[str]())) - known
            known |= grown
            todo += grown
    return frozenset(known)


@lru_cache(maxsize=4096)
def _parts(place: str) -> frozenset[str]:
    """`a`, `a.b` and `a.b.c` for `a.b.c`: the places that it is a part of, itself included."""
    names = place.split(".")
    return frozenset(".".join(names[: n + 1]) for n in range(len(names)))


@lru_cache(maxsize=2048)
def _links(function: ast.AST) -> list[tuple[set[str], set[str]]]:
    """What each binding in `function` ties together: places that get a value, and the places it may share."""
    found = [
        ({p for t in targets for p in may_alias(t)}, may_alias(value))
        for node in walk(function)
        for targets, value in _bindings_of(node)
    ]
    return [(targets, values) for targets, values in found if targets or values]


@lru_cache(maxsize=512)
def _ties(function: ast.AST) -> Mapping[str, Sequence[tuple[int, str]]]:
    """The links, by number, that tie something together with a place or with a part of it, and what that is."""
    found: dict[str, list[tuple[int, str]]] = {}
    for number, (targets, values) in enumerate(_links(function)):
        for place in targets | values:
            for part in _parts(place):
                found.setdefault(part, []).append((number, place))
    return found


def _bindings_of(node: ast.AST) -> Iterator[tuple[Sequence[ast.expr], ast.expr]]:
    """The targets that a node binds, with the value that each group of them gets something of."""
    if isinstance(node, ast.Assign):
        yield from _assignments(node.targets, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield [node.target], node.value
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield from _loop_bindings(node.target, node.iter)


def _assignments(targets: Sequence[ast.expr], value: ast.expr) -> Iterator[tuple[Sequence[ast.expr], ast.expr]]:
    """`a, b = x, y` ties a to x and b to y, but not x to y."""
    pairs = unpacked(targets[0], value) if len(targets) == 1 else None
    for each, given in [(targets, value)] if pairs is None else [([target], part) for target, part in pairs]:
        # `x[i] = y` copies elements: it ties no memory of tensors together.
        yield [t for t in each if not isinstance(t, ast.Subscript)], given


def _loop_bindings(target: ast.expr, iterable: ast.expr) -> Iterator[tuple[Sequence[ast.expr], ast.expr]]:
    """`for a, b in zip(x, y)` ties a to x and b to y, but not x to y."""
    called = iterable.func.id if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) else None
    parts = list(target.elts) if isinstance(target, (ast.Tuple, ast.List)) else []
    if isinstance(iterable, ast.Call) and called == "zip" and len(parts) == len(iterable.args):
        for part, value in zip(parts, iterable.args, strict=True):
            yield [part], value
    elif isinstance(iterable, ast.Call) and called == "enumerate" and len(parts) == 2 and iterable.args:
        yield from _loop_bindings(parts[1], iterable.args[0])
    else:
        yield [target], iterable


def bindings(function: Function, name: str) -> list[ast.AST]:
    """The places in `function` that give `name` a value: its argument, and every store or deletion."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    found: list[ast.AST] = [a for a in every if a is not None and a.arg == name]
    return [*found, *_stores(function).get(name, ())]


@lru_cache(maxsize=512)
def _stores(function: Function) -> dict[str, list[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for node in walk(function):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def definition(tree: Tree, function: Function, name: str) -> ast.Assign | None:
    """The only assignment that gives `name` its value in `function`."""
    found = bindings(function, name)
    if len(found) != 1:
        return None
    statement = next((a for a in tree.ancestors(found[0]) if isinstance(a, ast.stmt)), None)
    return statement if isinstance(statement, ast.Assign) else None


def assignment_read(tree: Tree, function: Function, read: ast.Name) -> ast.Assign | None:
    """The assignment that gives a name the value which the head of a statement reads.

    That is the only one of the function, or the last one above the statement in the same block.
    """
    only, here = definition(tree, function, read.id), tree.statement(read)
    if only is not None or isinstance(here, ast.While):
        return only
    block = tree.block(here)
    last = next((s for s in reversed(block[: block.index(here)]) if read.id in names_bound(s)), None)
    return last if isinstance(last, ast.Assign) else None


def readers(tree: Tree, function: Function, made: ast.Assign, name: str) -> list[ast.Name]:
    """The places that may read the value which an assignment gives a name.

    All that read the name, but in a block that runs once from top to bottom: there its next value ends this one.
    """
    below = tree.block(made)[tree.block(made).index(made) + 1 :]
    end = next((number for number, s in enumerate(below) if _surely_binds(s, name)), None)
    jumps = any(isinstance(a, (ast.For, ast.AsyncFor, ast.While, ast.Try, ast.With)) for a in tree.ancestors(made))
    plain = end is not None and not jumps and not _read_in_nested_functions(tree, made, name)
    reads = _loads(function).get(name, ())
    if not plain or end is None:
        return [*reads]
    within = {n for part in below[: end + 1] for n in walk(part)}
    return [n for n in reads if n in within]


@lru_cache(maxsize=512)
def _loads(function: Function) -> Mapping[str, Sequence[ast.Name]]:
    found: dict[str, list[ast.Name]] = {}
    for node in walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.setdefault(node.id, []).append(node)
    return found


def read_after(tree: Tree, statement: ast.stmt, name: str) -> bool:
    """Whether the value that `name` has after `statement` may be read before `name` gets another one."""
    inner: ast.stmt = statement
    while True:
        block = tree.block(inner)
        answer = _first_touch(block[block.index(inner) + 1 :], name)
        if answer is not None:
            return answer == "read"
        parent = tree.parent(inner)
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            # The next round may read it before it is bound again.
            around = _first_touch([parent], name) if inner in parent.body else None
            if around == "read":
                return True
        if not isinstance(parent, ast.stmt) or isinstance(parent, Function | ast.ClassDef):
            return _read_in_nested_functions(tree, statement, name)
        inner = parent


def _read_in_nested_functions(tree: Tree, statement: ast.stmt, name: str) -> bool:
    function = tree.function(statement)
    if function is None:
        return True
    nested = [n for n in walk(function) if isinstance(n, Function | ast.Lambda) and n is not function]
    return any(name in names_read(n) for n in nested)


def _first_touch(statements: Iterable[ast.stmt], name: str) -> str | None:
    """Whether `name` is first read or first bound: "read" if that is possible, "bind" if it is certain, else None."""
    for statement in statements:
        if _reads_first(statement, name):
            return "read"
        if _surely_binds(statement, name):
            return "bind"
        if isinstance(statement, (ast.Return, ast.Raise)):
            return "bind"
    return None


def _reads_first(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        if name in names_read(statement.iter):
            return True
        bound = name in names_bound(statement.target)
        inside = not bound and _first_touch(statement.body, name) == "read"
        return inside or _first_touch(statement.orelse, name) == "read"
    if isinstance(statement, ast.While):
        return name in names_read(statement.test) or "read" in {
            _first_touch(statement.body, name),
            _first_touch(statement.orelse, name),
        }
    if isinstance(statement, ast.If):
        return name in names_read(statement.test) or "read" in {
            _first_touch(statement.body, name),
            _first_touch(statement.orelse, name),
        }
    if isinstance(statement, ast.With):
        return any(name in names_read(i.context_expr) for i in statement.items) or (
            _first_touch(statement.body, name) == "read"
        )
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name) and statement.target.id == name:
        return True
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.Expr, ast.Return)):
        return name in _names_read_outside_comprehension_binding(statement, name)
    return name in names_read(statement)


def _names_read_outside_comprehension_binding(statement: ast.stmt, name: str) -> set[str]:
    """As `names_read`, without the variables that a comprehension binds for itself."""
    hidden: set[ast.AST] = set()
    for node in walk(statement):
        if not isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            continue
        if any(name in names_bound(g.target) for g in node.generators):
            first = {id(n) for n in walk(node.generators[0].iter)}
            hidden |= {n for n in walk(node) if id(n) not in first}
    return {
        n.id for n in walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n not in hidden
    }


def _surely_binds(statement: ast.stmt, name: str) -> bool:
    if isinstance(statement, (ast.Assign, ast.AnnAssign)):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return any(isinstance(n, ast.Name) and n.id == name for t in targets for n in walk(t) if _is_target_name(n))
    if isinstance(statement, ast.If):
        return bool(statement.orelse) and all(
            _first_touch(branch, name) == "bind" for branch in (statement.body, statement.orelse)
        )
    if isinstance(statement, ast.With):
        return _first_touch(statement.body, name) == "bind"
    return False


def _is_target_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def names_used(function: ast.AST) -> frozenset[str]:
    """Names that are read or bound in `function`, its parameters too."""
    return names_read(function) | names_bound(function) | {n.arg for n in walk(function) if isinstance(n, ast.arg)}


def fresh_name(function: ast.AST, wanted: str) -> str:
    """`wanted`, or the first of `wanted_2`, `wanted_3` … that `function` does not use for anything."""
    used = names_used(function)
    return next(name for name in numbered(wanted) if name not in used)


def numbered(wanted: str) -> Iterator[str]:
    """`wanted`, `wanted_2`, `wanted_3` and so on."""
    yield wanted
    yield from (f"{wanted}_{number}" for number in count(2))
