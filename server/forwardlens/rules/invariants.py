"""What is the same in every round of a loop, and how it is computed once before it."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Set
from functools import lru_cache

from forwardlens.model import Edit, ExpressionCost
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import function_of, own_function, own_property
from forwardlens.rules.devices import is_fixed_device
from forwardlens.rules.effects import changes, may_train
from forwardlens.rules.evidence import Sites, depends_on_order, index_items
from forwardlens.rules.layout import only_read
from forwardlens.rules.loops import leaves_early, skips_rounds
from forwardlens.rules.operations import ELEMENTWISE, FORWARDS, FRESH_OPERATORS, MAY_BE_SAME, REDUCTIONS
from forwardlens.rules.relation import changes_by_rounds
from forwardlens.rules.repeated import bound_in, nested_functions
from forwardlens.source.dataflow import METADATA, aliases, aliases_of_all, is_inplace, names_bound, overlap, root
from forwardlens.source.rewrite import checked, insert_before, replace_node, stands_alone
from forwardlens.source.tree import Comprehension, Function, Looping, Tree, dotted, integer, range_arguments, walk

# Operators that make a tensor of sizes and numbers alone.
CREATING = frozenset(
    f"aten::{name}"
    for name in """arange linspace logspace eye zeros ones full zeros_like ones_like full_like new_zeros new_ones
    new_full scalar_tensor tril_indices triu_indices""".split()
)
# Operators whose result is decided by their arguments, that make memory of their own, and change nothing.
_PURE = CREATING | frozenset(
    f"aten::{name}"
    for name in """linear matmul mm addmm bmm softmax log_softmax layer_norm relu gelu silu tanh sigmoid exp log sqrt
    rsqrt pow mul add sub div rsub neg abs square sin cos where cat stack sum mean amax amin norm linalg_vector_norm
    cumsum softplus elu leaky_relu clamp tril triu outer einsum conv1d conv2d embedding group_norm reciprocal eq ne gt
    ge lt le masked_fill maximum minimum index_select gather log1p expm1 erf logical_not logical_and logical_or
    bitwise_not bitwise_and bitwise_or __and__ __or__ floor_divide remainder floor ceil round clone repeat flip
    roll""".split()
)
# Operators that look at memory in another way.
_LOOKING = frozenset(
    f"aten::{name}" for name in "select slice unsqueeze squeeze transpose permute t view expand".split()
)
# Operators that bring a value to the host.
READING = frozenset({"aten::all", "aten::any", "aten::item", "aten::is_nonzero", "aten::_local_scalar_dense"})
# Functions and methods whose result shares no memory with what they read.
_MAKING = ((ELEMENTWISE | REDUCTIONS) - MAY_BE_SAME) | {"item", "tolist"}
# What does more than to compute a value, or does so later.
_DOING_MORE = (
    *(ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.Global, ast.Nonlocal),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Raise, ast.Assert, ast.Try, ast.With),
)
_CONDITIONAL = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.Match, ast.comprehension)
# What raises on an empty tensor.
_NEED_ELEMENTS = frozenset({"amax", "amin", "argmax", "argmin", "item", "max", "median", "min"})
# Functions that run all rounds of a generator before anything else happens.
_EXHAUSTING = frozenset({"dict", "list", "max", "min", "set", "sorted", "sum", "tuple"})
_WHOLE = ("bool", "int", "uint")


def is_same(sites: Sites, loop: Looping, node: ast.expr, also: Set[str] = frozenset()) -> bool:
    """Whether an expression reads nothing that the loop gives another value to or changes, and does nothing else.

    It may run operators that are known to be pure, and those in `also`.
    """
    if sites.tree.function(node) is None or isinstance(loop, ast.AsyncFor) or _is_lazy(sites.tree, loop):
        return False
    if {n.id for n in _read(sites, loop, node) if isinstance(n, ast.Name)} & bound_in(loop):
        return False
    if not _in_every_round(sites.tree, loop, node) and _may_need_its_round(sites, loop, node):
        return False
    return _is_pure(sites, node, _PURE | also) and unchanged(sites, loop, node)


def unchanged(sites: Sites, within: ast.AST, node: ast.expr) -> bool:
    """Whether `within`, a loop or a part of a statement, changes nothing in place that `node` reads."""
    function = sites.tree.function(node)
    assert function is not None
    places = {*_places(sites, within, node)}
    if places & _globals(sites.tree.module):
        return False
    shared = aliases_of_all(function, places - {"self"}) - {"self"}
    changed = changes_by_rounds(sites, within) if isinstance(within, Looping) else changes(sites, within)
    for _, place in changed:
        if place is None or any(overlap(place, s) for s in shared):
            return False
    return not may_train(sites, within)


@lru_cache(maxsize=64)
def _globals(module: ast.Module) -> frozenset[str]:
    """The names of a file that its functions bind from inside."""
    return frozenset(name for n in walk(module) if isinstance(n, ast.Global) for name in n.names)


def once_before(
    sites: Sites, loop: Looping, node: ast.expr, wanted: str, also: Set[str] = frozenset()
) -> tuple[Edit, ...]:
    """Name the value of `node`, which is the same in every round, in front of the outermost loop of which this is true.

    Raises `RefusedError` where a round may do more than read the value, or may not need it.
    """
    tree, function, outer = sites.tree, sites.tree.function(node), loop
    for around in tree.loops(loop):
        if not is_same(sites, around, node, also):
            break
        outer = around
    statement = outer if isinstance(outer, ast.stmt) else tree.statement(outer)
    if function is None or not stands_alone(tree, statement):
        raise RefusedError("the loop shares a line with other code")
    if isinstance(outer, ast.expr):
        _require_first(sites, statement, outer, node)
    if any(id(node) == id(n) for f in nested_functions(function) for n in walk(f)):
        raise RefusedError("it stands in a function inside the function")
    picking = not _surely_runs(outer) and any(_picks_one(sites, n) for n in parts(sites, node))
    if picking or any(isinstance(n, ast.Attribute) and n.attr in _NEED_ELEMENTS for n in parts(sites, node)):
        raise RefusedError("it fails on a tensor without elements, which a loop without rounds never reads")
    if not _is_number(sites, node) and not only_read(sites, node):
        _require_only_read(sites, node)
    name = sites.fresh_name(function, node, wanted)
    edits = checked(
        sites.source,
        [insert_before(tree, statement, [f"{name} = {tree.text(node)}"]), replace_node(sites.source, node, name)],
    )
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def called(sites: Sites, node: ast.AST) -> Function | None:
    """The function of this file that a call runs, or that reading a property does."""
    if isinstance(node, ast.Attribute):
        return own_property(sites, node)
    return (own_function(sites, node) or function_of(sites, node)) if isinstance(node, ast.Call) else None


def parts(sites: Sites, node: ast.AST) -> Iterator[ast.AST]:
    """What is inside `node`, itself included, and inside the functions that it calls."""
    todo = [node]
    for part in todo:
        for inner in walk(part):
            yield inner
            function = called(sites, inner)
            if function is not None and function not in todo:
                todo.append(function)


def name_of(node: ast.expr) -> str:
    """A name for what an expression computes: that of the layer or weight in it."""
    for inner in walk(node):
        place = dotted(inner) if isinstance(inner, ast.Attribute) else None
        if place is not None and place.startswith("self."):
            return place.split(".")[-1].strip("_") or "value"
    called = dotted(node.func) if isinstance(node, ast.Call) else None
    return (called or "value").split(".")[-1].strip("_") or "value"


# -- the same in every round


def _read(sites: Sites, loop: ast.AST, node: ast.AST) -> Iterator[ast.AST]:
    """The nodes inside `node`, without `x.device` where a loop binds `x` again and leaves it on its device."""
    fixed = [n for n in walk(node) if isinstance(loop, Looping) and is_fixed_device(sites, loop, n)]
    left_out = {below for n in fixed for below in walk(n)}
    return (n for n in walk(node) if n not in left_out)


def _is_lazy(tree: Tree, loop: Looping) -> bool:
    """Whether the rounds of a generator may run later than the statement that it stands in."""
    call = tree.parent(loop)
    exhausted = isinstance(call, ast.Call) and dotted(call.func) in _EXHAUSTING and loop in call.args
    return isinstance(loop, ast.GeneratorExp) and not exhausted


def _may_need_its_round(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    """Whether `node` may fail in a round that does not evaluate it: what a function needs may not be there."""
    calls = any(called(sites, n) is not None for n in walk(node))
    return calls or not isinstance(loop, ast.stmt) or _may_be_missing(sites, loop, node)


def _may_be_missing(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    """Whether the loop asks if something that `node` reads is there at all: `if bias is not None`."""
    places = {*_places(sites, loop, node)}
    asked = (n.left for n in walk(loop) if isinstance(n, ast.Compare) and isinstance(n.ops[0], (ast.Is, ast.IsNot)))
    return any(dotted(left) in places for left in asked)


def _in_every_round(tree: Tree, loop: Looping, node: ast.expr) -> bool:
    if leaves_early(loop) or skips_rounds(loop):
        return False
    if isinstance(loop, Comprehension) and any(g.ifs for g in loop.generators):
        return False
    return _is_unconditional(tree, loop, node)


def _is_unconditional(tree: Tree, around: ast.AST, node: ast.AST) -> bool:
    """Whether `node` is evaluated whenever what it stands in is, up to `around`."""
    for above in tree.ancestors(node):
        if above is around:
            return True
        asked = isinstance(above, (ast.If, ast.IfExp)) and above.test is node
        first = isinstance(above, ast.BoolOp) and above.values[0] is node
        if isinstance(above, _CONDITIONAL) and not asked and not first:
            return False
        node = above
    return False


def _is_pure(sites: Sites, node: ast.AST, known: Set[str], seen: frozenset[Function] = frozenset()) -> bool:
    """Whether `node` computes a value from what it reads and does nothing else, with the functions that it calls."""
    costs = [cost for _, cost in sites.inside(node)]
    if not all(_outermost(cost) <= known or _cuts_gradients(cost) for cost in costs):
        return False
    if depends_on_order(costs) or any(isinstance(n, _DOING_MORE) for n in walk(node)):
        return False
    for inner in walk(node):
        function = called(sites, inner)
        if function is not None:
            if function in seen or not _is_pure_function(sites, function, known, seen | {function}):
                return False
        elif isinstance(inner, ast.Call):
            # A call that ran no operator here may be anything.
            inplace = isinstance(inner.func, ast.Attribute) and is_inplace(inner.func.attr)
            if inplace or not (sites.outermost(inner) or _is_metadata(inner)):
                return False
    return True


def _is_pure_function(sites: Sites, function: Function, known: Set[str], seen: frozenset[Function]) -> bool:
    plain = isinstance(function, ast.FunctionDef) and all(
        dotted(d) in {"property", "staticmethod"} for d in function.decorator_list
    )
    return plain and not changes(sites, function) and all(_is_pure(sites, s, known, seen) for s in function.body)


def _outermost(cost: ExpressionCost) -> Set[str]:
    return {op.name for op in cost.ops if op.outermost} - _LOOKING


def _cuts_gradients(cost: ExpressionCost) -> bool:
    """Whether all that was run is a conversion from or to whole numbers.

    The gradients of others would be summed before they are converted, and not after it.
    """
    copies = [op.dtypes[:2] for op in cost.ops if op.name == "aten::copy_"]
    given = [op.dtypes[:1] for op in cost.ops if op.name == "aten::to" and op.outermost]
    return _outermost(cost) == {"aten::to"} and all(
        any(dtype.startswith(_WHOLE) for dtype in dtypes) for dtypes in copies or given
    )


def _is_metadata(call: ast.Call) -> bool:
    name = dotted(call.func) or ""
    plain = name in {"len", "int", "float", "range"} or name.startswith("math.")
    return plain or (isinstance(call.func, ast.Attribute) and call.func.attr in {"size", "dim", "numel"})


def _places(sites: Sites, within: ast.AST, node: ast.AST, seen: frozenset[Function] = frozenset()) -> Iterator[str]:
    """The places that `node` reads, and those that the functions that it calls read of what they are not given."""
    for inner in _read(sites, within, node):
        place = dotted(inner) if isinstance(inner, (ast.Name, ast.Attribute)) else None
        if place is not None:
            yield place
        function = called(sites, inner)
        if function is None or function in seen:
            continue
        own = {n.arg for n in walk(function.args) if isinstance(n, ast.arg)} | names_bound(function)
        for place in (p for statement in function.body for p in _places(sites, function, statement, seen | {function})):
            name, _, rest = place.partition(".")
            if name == "self" and rest and isinstance(inner, ast.Call) and function.name in FORWARDS:
                yield f"{dotted(inner.func)}.{rest}"
            elif (name == "self" and rest) or name not in own:
                yield place


# -- once before the loop


def _require_first(sites: Sites, statement: ast.stmt, loop: ast.expr, node: ast.expr) -> None:
    """Raise unless a statement runs a comprehension whenever it runs, and changes nothing of what `node` reads."""
    head = statement.iter if isinstance(statement, ast.For) else statement
    plain = isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.For))
    around = itertools.takewhile(lambda above: above is not statement, sites.tree.ancestors(loop))
    repeated = any(isinstance(above, Comprehension) for above in around)
    if not plain or repeated or not _is_unconditional(sites.tree, statement, loop):
        raise RefusedError("the statement may not need it")
    if any(isinstance(n, ast.NamedExpr) for n in walk(head)) or not unchanged(sites, head, node):
        raise RefusedError("the statement may change what it reads")


def _is_number(sites: Sites, node: ast.expr) -> bool:
    """Whether a value certainly is a number of Python, or None: nobody can change it."""
    function = called(sites, node)
    returns = [n.value for n in walk(function) if isinstance(n, ast.Return)] if function is not None else [node]
    return bool(returns) and all(value is None or _is_plain(value) for value in returns)


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.BoolOp):
        return all(_is_plain(value) for value in node.values)
    if isinstance(node, ast.Call):
        item = isinstance(node.func, ast.Attribute) and node.func.attr == "item"
        return item or dotted(node.func) in {"bool", "int", "float", "len"}
    if isinstance(node, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return negated or isinstance(node, ast.Constant)


def _surely_runs(loop: Looping) -> bool:
    """Whether a loop has rounds whatever the forward is given: so many as the source says, or one for each layer."""
    if isinstance(loop, ast.While):
        return False
    return all(_surely_gives(iterable) for iterable in _iterables(loop))


def _iterables(loop: ast.For | ast.AsyncFor | Comprehension) -> list[ast.expr]:
    return [loop.iter] if isinstance(loop, ast.stmt) else [g.iter for g in loop.generators]


def _surely_gives(iterable: ast.expr) -> bool:
    numbers = [integer(n) for n in range_arguments(iterable) or ()]
    counted = bool(numbers) and None not in numbers and len(range(*(n for n in numbers if n is not None))) > 0
    return counted or any((dotted(n) or "").startswith("self.") for n in walk(iterable))


def _picks_one(sites: Sites, node: ast.AST) -> bool:
    """`x[:, 0]` and `x.select(1, 0)` of what the forward is given, which may have no such element."""
    if isinstance(node, ast.Subscript):
        base, numbered = node.value, any(integer(item) is not None for item in index_items(node))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "select":
        base, numbered = node.func.value, True
    else:
        return False
    picked = numbered and sites.inner_op(node, "aten::select") is not None
    return picked and not (root(base) or "").startswith("self.")


def _require_only_read(sites: Sites, node: ast.expr) -> None:
    """Every round had a value of its own. One for all may be read, but not be changed or handed on."""
    function = sites.tree.function(node)
    todo: list[ast.expr] = [node]
    for read in todo:
        further = _handed_on(sites, read)
        if further is None or function is None:
            raise RefusedError("a round may change its value")
        for target in (n for n in further if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)):
            shared = aliases(function, target.id)
            if any(p is None or any(overlap(p, s) for s in shared) for _, p in changes(sites, function)):
                raise RefusedError("a round may change its value")
            further = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == target.id]
        todo += [n for n in further if n not in todo and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]


def _handed_on(sites: Sites, node: ast.expr) -> list[ast.expr] | None:
    """What else has the value of `node`, or a view of it, by how it is read; None if that is unclear."""
    parent = sites.tree.parent(node)
    if isinstance(parent, (ast.BinOp, ast.Compare, ast.Return)):
        return []
    if isinstance(parent, ast.UnaryOp):
        return [parent] if isinstance(parent.op, ast.UAdd) else []
    if isinstance(parent, ast.AugAssign) and parent.value is node:
        return []
    if isinstance(parent, (ast.If, ast.IfExp, ast.While)) and parent.test is node:
        return []
    if isinstance(parent, (ast.IfExp, ast.BoolOp)):
        return [parent]
    if isinstance(parent, ast.Attribute) and parent.attr in METADATA:
        return []
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
        return [parent]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        return parent.targets
    method = sites.tree.parent(parent) if isinstance(parent, ast.Attribute) else None
    named = isinstance(parent, ast.keyword) and parent.arg not in {"out", None}
    given = sites.tree.parent(parent) if isinstance(parent, ast.keyword) and named else parent
    call = method if isinstance(method, ast.Call) and method.func is parent else given
    if not isinstance(call, ast.Call) or not sites.outermost(call):
        return None
    # What is not known to make memory of its own may hand back what it is given, or a view of it.
    making = isinstance(call.func, ast.Attribute) and call.func.attr in _MAKING
    return [] if making or sites.outermost(call) <= _PURE | FRESH_OPERATORS else [call]
