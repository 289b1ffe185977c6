"""Whether a value certainly holds no tensor: numbers, strings, arrays, and collections of them."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache
from itertools import takewhile

from forwardlens.rules.callers import own_function
from forwardlens.rules.contract import Context
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites
from forwardlens.rules.operations import is_torch_function
from forwardlens.rules.starts import last_binding
from forwardlens.source.dataflow import METADATA, aliases, bindings, names_bound, root
from forwardlens.source.tree import Comprehension, Function, Tree, dotted, walk

# Methods whose result is a Python number, a list of them, or an array: nothing that autograd can follow.
TO_NUMBERS = frozenset({"tolist", "item", "numpy", "size", "dim", "numel", "nelement"})
NUMBER_CALLS = frozenset({"float", "int", "bool", "len", "str", "repr", "round", "range", "isinstance"})
# Built-in functions that give back what they are given, or something made of it.
_COLLECTING = frozenset(
    "list tuple set frozenset dict zip enumerate sorted reversed max min sum abs any all divmod iter next".split()
)
# Methods that put their arguments into their receiver.
STORING = frozenset({"append", "extend", "add", "update", "insert", "setdefault", "appendleft"})
_PLAIN_TYPES = frozenset("int float str bool list List tuple Tuple dict Dict set Sequence Optional".split())
# Names that hold no tensor wherever they are read, and reads that see none where their name may hold one elsewhere.
Numbers = Set[str | ast.Name]


def is_number(sites: Sites, node: ast.expr | None, numbers: Numbers, seen: frozenset[Function]) -> bool:
    """Whether a value certainly holds no tensor, if `numbers` hold none.

    `seen` are the functions whose results are being asked about.
    """
    if node is None or isinstance(node, (ast.Constant, ast.JoinedStr)):
        return True
    if isinstance(node, ast.Name):
        return node.id in numbers or node in numbers
    if isinstance(node, ast.Slice):
        return all(is_number(sites, bound, numbers, seen) for bound in (node.lower, node.upper, node.step))
    if isinstance(node, ast.Call):
        return _call(sites, node, numbers, seen)
    if isinstance(node, ast.Attribute):
        return node.attr in METADATA or is_number(sites, node.value, numbers, seen)
    if isinstance(node, ast.Subscript) and is_number(sites, node.slice, numbers, seen) and _is_looked_up(sites, node):
        return True
    parts = _parts(node)
    return parts is not None and all(is_number(sites, part, numbers, seen) for part in parts)


def _parts(node: ast.expr) -> list[ast.expr] | None:
    """The expressions whose values an expression is made of; None if that is unclear."""
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        return node.elts
    if isinstance(node, ast.Dict):
        return node.values
    if isinstance(node, ast.Compare):
        asks = all(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
        return [] if asks else [node.left, *node.comparators]
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
        return [node.elt]
    if isinstance(node, ast.DictComp):
        return [node.key, node.value]
    if isinstance(node, ast.BinOp):
        return _operands(node)
    if isinstance(node, ast.UnaryOp):
        return [node.operand]
    if isinstance(node, ast.BoolOp):
        return node.values
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return [node.value] if isinstance(node, (ast.Subscript, ast.Starred, ast.NamedExpr)) else None


def _operands(node: ast.expr) -> list[ast.expr]:
    """The operands of a chain of operators, which may be longer than Python's stack is deep."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp):
        found.append(node.right)
        node = node.left
    return [*found, node]


def _call(sites: Sites, call: ast.Call, numbers: Numbers, seen: frozenset[Function]) -> bool:
    func, name = call.func, dotted(call.func)
    if name in NUMBER_CALLS or (isinstance(func, ast.Attribute) and func.attr in TO_NUMBERS):
        return True
    # What orders things by a key gives back the things.
    ordered = name in {"sorted", "max", "min"}
    given = [*call.args, *(k.value for k in call.keywords if not (ordered and k.arg == "key"))]
    if name == "map" and call.args:
        given = call.args[1:] if dotted(call.args[0]) not in NUMBER_CALLS else []
    plain = all(is_number(sites, value, numbers, seen) for value in given)
    if name in _COLLECTING or name == "map":
        return plain
    if isinstance(func, ast.Attribute) and is_number(sites, func.value, numbers, seen):
        # Methods of lists, strings and arrays.
        return plain
    function = own_function(sites, call)
    if function is not None:
        return returns_numbers(sites, function, seen)
    return plain and _made_no_tensor(sites, call)


def _made_no_tensor(sites: Sites, call: ast.Call) -> bool:
    """Whether a call of something from outside the function ran no operator, neither itself nor in functions it calls.

    `self.vocabulary.decode(ids)`, `Answer(scores, ids)`. Given numbers only, it cannot know of any tensor made here.
    """
    function, place = sites.tree.function(call), dotted(call.func)
    if function is None or place is None or is_torch_function(sites.tree.module, call.func):
        return False
    name = place.split(".")[0]
    cost = sites.cost(call)
    silent = cost is None or (not cost.ops and cost.total_ms <= cost.self_ms)
    return silent and (name == "self" or not bindings(function, name)) and name not in names_bound(function)


def _is_looked_up(sites: Sites, node: ast.Subscript) -> bool:
    """Whether an item of something on the object is read without an operator: `self.labels[i]` of a list or dict."""
    return (dotted(node.value) or "").startswith("self.") and not any(cost.ops for _, cost in sites.inside(node))


def returns_numbers(sites: Sites, function: Function, seen: frozenset[Function] = frozenset()) -> bool:
    """Whether everything that a function returns certainly holds no tensor."""
    if function in seen or any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(function)):
        return False
    numbers = number_names(sites, function, seen)
    returned = [n.value for n in walk(function) if isinstance(n, ast.Return)]
    return all(is_number(sites, value, numbers, seen | {function}) for value in returned)


def number_names(sites: Sites, function: Function, seen: frozenset[Function] = frozenset()) -> Numbers:
    """What a function binds to numbers only, and puts nothing else into."""
    known = sites.context.once(_known)
    if (function, seen) not in known:
        known[function, seen] = _number_names(sites, function, seen)
    return known[function, seen]


def _known(_: Context) -> dict[tuple[Function, frozenset[Function]], Numbers]:
    return {}


def _number_names(sites: Sites, function: Function, seen: frozenset[Function]) -> Numbers:
    values: dict[str, list[ast.expr]] = {}
    for name, value in _all_bound(function):
        values.setdefault(name, []).append(value)
    put: dict[str, list[ast.expr]] = {}
    for name, value in (*_put(function), *given_to_library(sites, function)):
        for shared in aliases(function, name):
            put.setdefault(shared, []).append(value)
    filled = _filled(sites, function)
    parameters = [n for n in walk(function) if isinstance(n, ast.arg)]
    unclear = {arg.arg for arg in parameters if not _is_plain(arg.annotation)} | _unclear(function, values) | filled
    supposed: dict[str | ast.Name, list[ast.expr]] = {
        name: [*values.get(name, ()), *put.get(name, ())]
        for name in (*values, *(arg.arg for arg in parameters))
        if name not in unclear
    }
    for read in _reads_of_many(sites.tree, function):
        given = values_seen(sites, read) if read.id not in filled else []
        if given:
            supposed[read] = [*given, *put.get(read.id, ())]
    return _without_tensors(sites, supposed, seen | {function})


def _unclear(function: Function, values: Mapping[str, Sequence[ast.expr]]) -> set[str]:
    """Names that a function binds in a way that does not show what they get."""
    stores = Counter(n.id for n in walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    return {name for name, count in stores.items() if len(values.get(name, ())) < count}


def _without_tensors(
    sites: Sites, supposed: Mapping[str | ast.Name, Sequence[ast.expr]], seen: frozenset[Function]
) -> Numbers:
    """Suppose all hold numbers, and drop those of which that cannot be true until nothing changes."""
    numbers, before = {*supposed}, -1
    while before != len(numbers):
        before = len(numbers)
        for known, values in supposed.items():
            if known in numbers and not all(is_number(sites, value, numbers, seen) for value in values):
                numbers.remove(known)
    return frozenset(numbers)


def _reads_of_many(tree: Tree, function: Function) -> Iterator[ast.Name]:
    """The reads of names that a function binds more than once, each time where it can be followed."""
    reads = [n for n in walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    stores = {name: bindings(function, name) for name in {read.id for read in reads}}
    many = {
        name
        for name, found in stores.items()
        if len(found) > 1 and not any(_is_hidden(tree, function, store) for store in found)
    }
    return (read for read in reads if read.id in many and tree.function(read) is function)


def _is_hidden(tree: Tree, function: Function, store: ast.AST) -> bool:
    """Whether a name is bound in a function inside, which may run at any time, or in the middle of an expression."""
    inside = isinstance(store, ast.Name) and tree.function(store) is not function
    return inside or isinstance(tree.parent(store), ast.NamedExpr)


def values_seen(sites: Sites, read: ast.Name) -> list[ast.expr]:
    """What a read sees, or sees a part of, whatever its name holds elsewhere; nothing where that is unclear."""
    statement = sites.tree.statement(read)
    for above in takewhile(lambda node: node is not statement, sites.tree.ancestors(read)):
        if isinstance(above, ast.Lambda):
            return []
        if isinstance(above, Comprehension) and read not in walk(above.generators[0].iter):
            own = [value for part in above.generators for name, value in _bound(part) if name == read.id]
            if own or isinstance(above, ast.GeneratorExp):
                return own
    # The test of a loop sees what the rounds bind as well, and what stands behind a loop what none of them bound.
    binding = None if isinstance(statement, ast.While) else last_binding(sites, statement, read.id)
    if isinstance(binding, ast.For):
        certain = binding in sites.tree.ancestors(statement)
    else:
        certain = isinstance(binding, (ast.Assign, ast.AnnAssign))
    return [value for name, value in _bound(binding) if name == read.id] if binding is not None and certain else []


def _is_plain(annotation: ast.expr | None) -> bool:
    """`list[str]`, `int | None`: a type without tensors."""
    names = {n.id for n in walk(annotation) if isinstance(n, ast.Name)} if annotation is not None else set[str]()
    return bool(names & {"int", "float", "str", "bool"}) and names <= _PLAIN_TYPES


def _bound(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a node binds, each with the value that it gets or gets a part of."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpacked(target, node.value)
    elif isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr)):
        if node.value is not None:
            yield from _unpacked(node.target, node.value)
    elif isinstance(node, (ast.For, ast.comprehension)):
        yield from _unpacked(node.target, node.iter)


@lru_cache(maxsize=512)
def _all_bound(function: Function) -> Sequence[tuple[str, ast.expr]]:
    return [pair for node in walk(function) for pair in _bound(node)]


def _unpacked(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Starred):
        yield from _unpacked(target.value, value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        parts = value.elts if isinstance(value, ast.Tuple) else []
        called = dotted(value.func) if isinstance(value, ast.Call) else None
        if isinstance(value, ast.Call) and called == "zip":
            parts = value.args
        elif isinstance(value, ast.Call) and called == "enumerate":
            parts = [ast.Constant(0), *value.args[:1]]
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "items":
            parts = []
        fits = len(parts) == len(target.elts) and not any(isinstance(p, ast.Starred) for p in (*parts, *target.elts))
        for position, element in enumerate(target.elts):
            yield from _unpacked(element, parts[position] if fits else value)


def _put(function: Function) -> Iterator[tuple[str, ast.expr]]:
    """What is put into named collections: `scores.append(x)`, `answer["score"] = x`."""
    for node in walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in STORING:
            place = root(node.func.value)
            if place is not None:
                yield from ((place, value) for value in (*node.args, *(k.value for k in node.keywords)))
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in (n for t in targets for n in walk(t)):
                place = root(target) if isinstance(target, (ast.Subscript, ast.Attribute)) else None
                if place is not None and isinstance(getattr(target, "ctx", None), ast.Store):
                    yield place.split(".")[0], node.value


def given_to_library(sites: Sites, function: Function) -> Iterator[tuple[str, ast.Call]]:
    """Collections made here that a library is given, with the call: it may put in what it makes or is given as well."""
    collections = _collections(function)
    for call in (n for n in walk(function) if isinstance(n, ast.Call)):
        keeps = isinstance(call.func, ast.Attribute) and call.func.attr in STORING | {"join"}
        known = (dotted(call.func) or "") in NUMBER_CALLS | _COLLECTING
        if keeps or known or is_torch_function(sites.tree.module, call.func) or own_function(sites, call) is not None:
            continue
        given = (v.id for v in (*call.args, *(k.value for k in call.keywords)) if isinstance(v, ast.Name))
        yield from ((name, call) for name in given if name in collections)


def _filled(sites: Sites, function: Function) -> set[str]:
    """Collections made here that functions of the program put something into."""
    collections, filled = _collections(function), set[str]()
    for node, place in changes(sites, function) if collections else ():
        receiver = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
        if isinstance(node, ast.Call) and place is not None and (receiver is None or root(receiver) != place):
            filled |= aliases(function, place)
    return filled & collections


@lru_cache(maxsize=512)
def _collections(function: Function) -> Set[str]:
    return {name for name, value in _all_bound(function) if _is_collection(value)}


def _is_collection(value: ast.expr) -> bool:
    return isinstance(value, (ast.List, ast.Dict, ast.Set)) or (
        isinstance(value, ast.Call) and dotted(value.func) in {"list", "dict", "set", "defaultdict", "deque"}
    )
