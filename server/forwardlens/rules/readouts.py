"""Elements of tensors that a loop makes Python numbers of, and how to read them all before it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod

from forwardlens.model import Edit
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites, index_items, ran_functions
from forwardlens.rules.loops import loop_of
from forwardlens.rules.repeated import LEAST_ROUNDS, body, bound_in
from forwardlens.rules.rounds import outermost
from forwardlens.source import dataflow
from forwardlens.source.dataflow import (
    aliases,
    aliases_of_all,
    bindings,
    fresh_name,
    is_inplace,
    may_alias,
    names_bound,
    overlap,
    read_after,
)
from forwardlens.source.rewrite import checked, insert_before, replace_node, replace_statements, stands_alone
from forwardlens.source.tree import Function, Looping, argument, dotted, integer, is_atom, walk

_NUMBERS = frozenset({"int", "float", "bool", "round", "range"})
_READ = ("aten::item", "aten::_local_scalar_dense")
# Every dtype holds the whole numbers below this.
_SMALL = 128
# `tolist` makes a Python number of every element; this many for each one that is read are worth it.
_MOST_UNREAD = 8


@dataclass(frozen=True)
class _Indexed:
    """An expression that makes a Python number of `base[items]`, of as many elements as `base` has."""

    node: ast.expr
    base: ast.expr
    items: tuple[ast.expr, ...]
    elements: int


@dataclass(frozen=True)
class _Iterated:
    """What a loop makes Python numbers of, of its variable `name` that takes the elements of `iterable`.

    `others` are the reads of the variable that need a tensor.
    """

    name: str
    iterable: ast.expr
    nodes: tuple[ast.expr, ...]
    others: tuple[ast.Name, ...]


@dataclass(frozen=True)
class Elements:
    """The elements that a loop makes Python numbers of. `costly` are the expressions that paid for it."""

    indexed: tuple[_Indexed, ...]
    iterated: tuple[_Iterated, ...]
    costly: tuple[ast.AST, ...]

    @property
    def nodes(self) -> list[ast.expr]:
        return [r.node for r in self.indexed] + [node for i in self.iterated for node in i.nodes]


def reads_number(sites: Sites, node: ast.AST) -> bool:
    cost = sites.cost(node)
    return cost is not None and cost.op_calls(*_READ) >= LEAST_ROUNDS


def elements_read(sites: Sites, loop: Looping, reading: list[ast.AST], *, asked: bool = False) -> Elements | None:
    """What `loop` makes Python numbers of, of the expressions `reading` that made some. None if it is no elements.

    With `asked` also the elements that conditions ask for, as in `if x[i] == y[j]`.
    """
    indexed = [read for part in body(loop) for n in walk(part) if (read := _indexed(sites, n, asked)) is not None]
    indexed = [r for r in indexed if _among(r.node, reading)]
    indexed.sort(key=lambda read: sites.source.span(read.node).start)
    iterated = [i for i in _iterated(sites, loop, asked) if any(_among(n, reading) for n in i.nodes)]
    nodes = [r.node for r in indexed] + [n for i in iterated for n in i.nodes]
    costly = tuple(n for n in reading if any(_among(node, [n]) for node in nodes))
    return Elements((*indexed,), (*iterated,), costly) if costly else None


def _among(node: ast.expr, others: Iterable[ast.AST]) -> bool:
    return any(node in walk(other) or other in walk(node) for other in others)


def _number_of(sites: Sites, element: ast.expr, asked: bool = False) -> ast.expr | None:
    """What stands for a Python number if `element` becomes one where it stands.

    `x.item()` as a whole, or `x` inside `int(x)`, `range(x)`, `y[:x]` and `y[b, x]`; with `asked` also in conditions.
    """
    parent = sites.tree.parent(element)
    if asked and (_is_asked(sites, element) or (isinstance(parent, ast.Compare) and _is_asked(sites, parent))):
        return element
    above = sites.tree.parent(parent) if parent is not None else None
    if isinstance(parent, ast.Attribute) and parent.attr == "item":
        return above if isinstance(above, ast.Call) and above.func is parent else None
    if isinstance(parent, ast.Call):
        return element if dotted(parent.func) in _NUMBERS and element in parent.args else None
    if isinstance(parent, ast.Slice):
        return element
    indexed = above if isinstance(parent, ast.Tuple) else parent
    if isinstance(indexed, ast.Subscript) and element in index_items(indexed) and reads_number(sites, indexed):
        # An index without dimensions is a number, unless a mask or a list beside it makes it an index tensor.
        return None if sites.outermost(indexed) & {"aten::index", "aten::index_put_"} else element
    return None


def _is_asked(sites: Sites, node: ast.expr) -> bool:
    """Whether a tensor, or a comparison of tensors, is asked for its truth, and for nothing else."""
    inner, above = node, sites.tree.parent(node)
    while isinstance(above, ast.BoolOp):
        inner, above = above, sites.tree.parent(above)
    if isinstance(above, ast.Call):
        # Of a tensor itself `int` asks for its number.
        converts = dotted(above.func) in {"int", "bool", "float"} and above.args == [node]
        return isinstance(node, ast.Compare) and converts and reads_number(sites, above)
    tested = isinstance(above, (ast.If, ast.While, ast.IfExp, ast.Assert)) and above.test is inner
    kept = isinstance(above, ast.comprehension) and inner in above.ifs
    negated = isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.Not)
    return (tested or kept or negated) and reads_number(sites, node)


def _indexed(sites: Sites, node: ast.AST, asked: bool) -> _Indexed | None:
    """`starts[i].item()`, or `starts[i]` where it becomes a number."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.ctx, ast.Load):
        return None
    whole = _number_of(sites, node, asked)
    items: list[ast.expr] = []
    base: ast.expr = node
    cost, ranks, elements = None, 0, 0
    while isinstance(base, ast.Subscript):
        items = [*index_items(base), *items]
        cost = sites.cost(base) or cost
        base = base.value
    if whole is None or cost is None or dotted(base) is None:
        return None
    for op in outermost(cost):
        if op.name == "aten::select" and op.shapes and len(op.shapes[0]) > ranks:
            ranks, elements = len(op.shapes[0]), prod(op.shapes[0])
    return _Indexed(whole, base, tuple(items), elements) if ranks == len(items) else None


def _iterated(sites: Sites, loop: Looping, asked: bool) -> Iterator[_Iterated]:
    """The loop's variables that are elements of tensors and become Python numbers."""
    for name, iterable, repeated in elements_of(sites, loop):
        numbers: list[ast.expr] = []
        others: list[ast.Name] = []
        for read in (n for n in repeated if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)):
            number = _number_of(sites, read, asked)
            if number is None:
                others.append(read)
            else:
                numbers.append(number)
        if numbers and any(_is_scalar(sites, n) for n in numbers):
            yield _Iterated(name, iterable, (*numbers,), (*others,))


def elements_of(sites: Sites, loop: Looping) -> Iterator[tuple[str, ast.expr, list[ast.AST]]]:
    """The variables that take the rows of tensors, with the tensor, and what the loop repeats with them."""
    if isinstance(loop, ast.While):
        return
    heads = [loop] if isinstance(loop, (ast.For, ast.AsyncFor)) else loop.generators
    for head in heads:
        if isinstance(head, (ast.For, ast.AsyncFor)):
            repeated = [n for part in head.body for n in walk(part)]
        else:
            skipped = {id(n) for n in walk(head.iter)}
            repeated = [n for n in walk(loop) if id(n) not in skipped]
        taken, tensors = [*_taken(head.target, head.iter)], _unbound(sites, loop, head.iter)
        if tensors >= len(taken):
            yield from ((name, iterable, repeated) for name, iterable in taken)
        elif tensors:
            # Lists of tensors are iterated without an operator. Which one is the tensor shows in its elements.
            read = [(n, i) for n, i in taken if any(_becomes_number(sites, n, part) for part in repeated)]
            yield from ((name, iterable, repeated) for name, iterable in (read if len(read) == 1 else ()))


def _unbound(sites: Sites, loop: Looping, iterable: ast.expr) -> int:
    """How many tensors the head of a loop takes apart each time that it runs."""
    whole = sites.cost(loop) if isinstance(loop, ast.stmt) else None
    costs = [cost for _, cost in sites.inside(iterable)] + ([whole] if whole is not None else [])
    total = 0
    for cost in costs:
        for op in cost.ops:
            if op.name == "aten::unbind" and op.outermost and op.shapes and op.shapes[0]:
                rows = cost.op_calls("aten::select") // max(1, op.shapes[0][0])
                total += max(op.calls, rows if op.shape_variants == 1 else 0) // max(1, cost.calls)
    return total


def _becomes_number(sites: Sites, name: str, node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == name and _number_of(sites, node) is not None


def _taken(target: ast.expr, iterable: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names of a loop's target with what each is taken from: through `enumerate`, `zip`, `list`, `unbind(0)`."""
    called = dotted(iterable.func) if isinstance(iterable, ast.Call) else None
    if isinstance(iterable, ast.Call) and called == "enumerate" and iterable.args:
        if isinstance(target, ast.Tuple) and len(target.elts) == 2:
            yield from _taken(target.elts[1], iterable.args[0])
    elif isinstance(iterable, ast.Call) and called == "zip":
        parts = target.elts if isinstance(target, ast.Tuple) else []
        if len(parts) == len(iterable.args):
            for part, value in zip(parts, iterable.args, strict=True):
                yield from _taken(part, value)
    elif isinstance(iterable, ast.Call) and called in {"list", "tuple"} and len(iterable.args) == 1:
        yield from _taken(target, iterable.args[0])
    elif isinstance(target, ast.Name) and called not in {"range", "reversed", "map", "filter"}:
        yield target.id, iterable


def _is_scalar(sites: Sites, number: ast.expr) -> bool:
    """Whether what was read had no dimensions, from the operators that read it."""
    nodes = [number, *sites.tree.ancestors(number)][:4]
    ops = [op for node in nodes if (c := sites.cost(node)) is not None for op in c.ops if op.name == "aten::item"]
    return bool(ops) and all(op.shapes[:1] == ((),) and op.shape_variants == 1 for op in ops)


# -- reading them before the loop


def read_before(sites: Sites, loop: Looping, found: Elements) -> tuple[Edit, ...]:
    """Read each tensor once before the loop. Raises `RefusedError`."""
    function = sites.tree.function(loop)
    if function is None:
        raise RefusedError("the loop is not inside a function")
    _require_no_writer(sites, loop)
    _require_comparable(sites, found)
    edits = [edit for iterated in found.iterated for edit in _iterate_numbers(sites, function, loop, iterated)]
    rows = {name: iterable for name, iterable, _ in elements_of(sites, loop)}
    for name, iterable in rows.items():
        reads = [read for read in found.indexed if dotted(read.base) == name]
        edits += _index_rows(sites, function, loop, name, iterable, reads) if reads else ()
    edits += _index_numbers(sites, function, loop, [r for r in found.indexed if dotted(r.base) not in rows])
    fitted = checked(sites.source, edits)
    if fitted is None:
        raise RefusedError("the edits do not fit together")
    return fitted


def _require_comparable(sites: Sites, found: Elements) -> None:
    """Raises `RefusedError` if Python may compare the numbers of two elements otherwise than torch does.

    Torch converts both to one dtype first, which rounds large whole numbers, and a literal to that of the tensor.
    """
    for comparison in {p for n in found.nodes if isinstance(p := sites.tree.parent(n), ast.Compare)}:
        sides = [comparison.left, *comparison.comparators]
        cost = sites.cost(comparison)
        dtypes = {d for op in cost.ops if op.outermost for d in op.dtypes[:2] if d} if cost is not None else set[str]()
        read = [side in found.nodes for side in sides]
        alike = all(read) and (len(dtypes - {"bool"}) == 1 or all("int" in d or d == "bool" for d in dtypes))
        small = read.count(False) == 1 and any(integer(side) in range(_SMALL) for side in sides)
        if len(sides) != 2 or not (alike or small):
            raise RefusedError(f"`{sites.tree.text(comparison)}` may compare numbers of two kinds")


def _iterate_numbers(sites: Sites, function: Function, loop: Looping, found: _Iterated) -> Iterator[Edit]:
    """`for size in sizes.tolist()`, and the numbers as they are in the loop."""
    tree, source = sites.tree, sites.source
    text = tree.text(found.iterable)
    rebound = _rebound(loop, found)
    if [n for n in found.others if rebound is None or not _comes_after(rebound, n)]:
        raise RefusedError(f"`{found.name}` is used as a tensor too")
    if isinstance(loop, ast.stmt) and rebound is None and read_after(tree, loop, found.name):
        raise RefusedError(f"`{found.name}` is read after the loop")
    _require_unchanged(sites, function, loop, found.iterable)
    outer = _rows_around(sites, function, loop, found.iterable)
    if outer is not None:
        yield _listed(sites, outer)
    if _is_list(sites, loop, found):
        assert isinstance(loop, ast.expr)
        yield replace_node(source, loop, text if outer is not None else _list_of(sites, found.iterable))
        return
    for node in found.nodes:
        if isinstance(node, ast.Call):
            alone = rebound is not None and rebound.value is node and stands_alone(tree, rebound)
            if rebound is not None and alone and isinstance(loop, ast.For) and len(loop.body) > 1:
                yield replace_statements(tree, [rebound], [])
            else:
                yield replace_node(source, node, found.name)
    if outer is None:
        yield _listed(sites, found.iterable)


def _require_unchanged(sites: Sites, function: Function, loop: Looping, tensor: ast.expr) -> None:
    shared = aliases_of_all(function, may_alias(tensor))
    if any(p is None or any(overlap(p, s) for s in shared) for _, p in changes(sites, loop)):
        raise RefusedError(f"the loop may change `{sites.tree.text(tensor)}`")


def _listed(sites: Sites, tensor: ast.expr) -> Edit:
    return replace_node(sites.source, tensor, _list_of(sites, tensor))


def _list_of(sites: Sites, tensor: ast.expr) -> str:
    """`sizes.tolist()`, also for `sizes.unbind(0)`."""
    text = sites.tree.text(tensor)
    if isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute) and tensor.func.attr == "unbind":
        axis = argument(tensor, 0, "dim")
        if dotted(tensor.func.value) == "torch" or (axis is not None and integer(axis) != 0):
            raise RefusedError(f"`{text}` has another form")
        text = sites.tree.text(tensor.func.value)
    elif not is_atom(tensor):
        text = f"({text})"
    return f"{text}.tolist()"


def _is_list(sites: Sites, loop: Looping, found: _Iterated) -> bool:
    """Whether `loop` makes a list of all numbers and does nothing else: `[v.item() for v in x]`."""
    if not isinstance(loop, ast.ListComp) and not (isinstance(loop, ast.GeneratorExp) and _is_unpacked(sites, loop)):
        return False
    head = loop.generators[0]
    plain = len(loop.generators) == 1 and not head.ifs and not head.is_async and isinstance(head.target, ast.Name)
    return plain and head.iter is found.iterable and isinstance(loop.elt, ast.Call) and found.nodes == (loop.elt,)


def _is_unpacked(sites: Sites, generator: ast.GeneratorExp) -> bool:
    """Whether all of a generator is read where it stands: `a, b = (...)`, `[*(...)]`."""
    parent = sites.tree.parent(generator)
    if isinstance(parent, ast.Assign):
        return all(isinstance(target, (ast.Tuple, ast.List)) for target in parent.targets)
    return isinstance(parent, ast.Starred)


def _rows_around(sites: Sites, function: Function, loop: Looping, rows: ast.expr) -> ast.expr | None:
    """The tensor whose rows an outer loop gives this one, if all of it can be read before: `for row in table`."""
    around = next(sites.tree.loops(loop), None)
    given = elements_of(sites, around) if around is not None else ()
    table = next((iterable for name, iterable, _ in given if name == dotted(rows)), None)
    if around is None or table is None:
        return None
    try:
        _require_rows(sites, function, around, table, [rows])
        _list_of(sites, table)
    except RefusedError:
        return None
    return table


def _require_rows(sites: Sites, function: Function, loop: Looping, tensor: ast.expr, reads: Iterable[ast.expr]) -> None:
    """Raises `RefusedError` unless the rows of `tensor` may be lists: nothing but `reads` looks at one."""
    name, repeated = next((name, repeated) for name, tensors, repeated in elements_of(sites, loop) if tensors is tensor)
    named = [n for n in repeated if isinstance(n, ast.Name) and n.id == name]
    if any(n not in reads for n in named):
        raise RefusedError(f"`{name}` is used as a tensor too")
    if isinstance(loop, ast.stmt) and read_after(sites.tree, loop, name):
        raise RefusedError(f"`{name}` is read after the loop")
    _require_no_writer(sites, loop)
    _require_unchanged(sites, function, loop, tensor)


def _index_rows(
    sites: Sites, function: Function, loop: Looping, name: str, tensor: ast.expr, reads: Sequence[_Indexed]
) -> Iterator[Edit]:
    """`for row in table.tolist()` where a round makes numbers of `row[0]` and the like."""
    _require_rows(sites, function, loop, tensor, [read.base for read in reads])
    for read in reads:
        if not all(_is_counter(sites, loop, item) for item in read.items):
            raise RefusedError(f"`{sites.tree.text(read.node)}` is not indexed by counters alone")
        if read.elements > _MOST_UNREAD * len(reads):
            raise RefusedError(f"most elements of `{name}` are never read")
        index = "".join(f"[{sites.tree.text(item)}]" for item in read.items)
        yield replace_node(sites.source, read.node, f"{name}{index}")
    yield _listed(sites, tensor)


def _rebound(loop: Looping, found: _Iterated) -> ast.Assign | None:
    """`n = int(n)`, if it is a statement of every round that gives the variable its number for the rest of it."""
    if not isinstance(loop, (ast.For, ast.AsyncFor)):
        return None
    stores = [s for s in loop.body if found.name in names_bound(s)]
    first = stores[0] if stores else None
    if not isinstance(first, ast.Assign) or [dotted(t) for t in first.targets] != [found.name]:
        return None
    return first if any(n in walk(first) for n in found.nodes) else None


def _comes_after(statement: ast.stmt, node: ast.AST) -> bool:
    return getattr(node, "lineno", 0) > (statement.end_lineno or statement.lineno)


def _index_numbers(sites: Sites, function: Function, loop: Looping, reads: Iterable[_Indexed]) -> Iterator[Edit]:
    """A list of each tensor in front of the loop, and elements of it in the loop."""
    tree, every = sites.tree, list(reads)
    lists: dict[str, str] = {}
    made: dict[ast.stmt, list[str]] = {}
    # Where every element goes through `int`, whole numbers can be had for all at once.
    mixed = {tree.text(read.base) for read in every if _truncation(sites, read) is None}
    known = {read.node: read for read in every}

    def element(read: _Indexed) -> str:
        items = (element(known[item]) if item in known else tree.text(item) for item in read.items)
        return f"{lists[tree.text(read.base)]}{''.join(f'[{item}]' for item in items)}"

    for read in every:
        tensor = tree.text(read.base)
        outer = _free_of(sites, function, loop, tensor)
        if not all(_is_counter(sites, loop, i) or (i in known and _is_whole(sites, i)) for i in read.items):
            raise RefusedError(f"`{tree.text(read.node)}` is not indexed by counters alone")
        calls = max((c.calls for n in (read.node, *_around(sites, read)) for _, c in sites.inside(n)), default=0)
        if read.elements > _MOST_UNREAD * max(1, calls):
            raise RefusedError(f"most elements of `{tensor}` are never read")
        if tensor not in lists:
            lists[tensor] = fresh_name(function, f"{tensor.split('.')[-1]}_list")
            whole = "" if tensor in mixed else ".long()"
            made.setdefault(outer, []).append(f"{lists[tensor]} = {tensor}{whole}.tolist()")
    # What picks an element goes with it.
    picking = {item for read in every for item in read.items if item in known}
    for read in every:
        if read.node not in picking:
            replaced = read.node if tree.text(read.base) in mixed else _truncation(sites, read)
            yield replace_node(sites.source, replaced or read.node, element(read))
    yield from (insert_before(tree, statement, lines) for statement, lines in made.items())


def _is_whole(sites: Sites, read: ast.expr) -> bool:
    """Whether the number that is read picks an element, as whole numbers do and booleans do not."""
    op = sites.op(read, "aten::item")
    return op is not None and "int" in "".join(op.dtypes[:1])


def _around(sites: Sites, read: _Indexed) -> list[ast.AST]:
    parent = sites.tree.parent(read.node)
    return [parent] if isinstance(parent, (ast.Subscript, ast.Call)) else []


def _truncation(sites: Sites, read: _Indexed) -> ast.Call | None:
    """The `int(...)` around a read."""
    parent = sites.tree.parent(read.node)
    if isinstance(parent, ast.Call) and dotted(parent.func) == "int" and parent.args == [read.node]:
        return None if parent.keywords else parent
    return None


def _free_of(sites: Sites, function: Function, loop: Looping, tensor: str) -> ast.stmt:
    """The outermost statement that repeats the reads and leaves the tensor alone."""
    chosen: ast.stmt | None = None
    shared = aliases(function, tensor)
    for around in (loop, *sites.tree.loops(loop)):
        bound = any(name == tensor.split(".")[0] for name in bound_in(around))
        changed = [p for _, p in changes(sites, around)]
        if bound or any(p is None or any(overlap(p, s) for s in shared) for p in changed):
            break
        chosen = sites.tree.statement(around)
    if chosen is None or not stands_alone(sites.tree, chosen):
        raise RefusedError(f"the loop may change `{tensor}`")
    return chosen


def _is_counter(sites: Sites, loop: Looping, item: ast.expr) -> bool:
    """Whether an index is a Python number for certain: a literal, a loop's counter, or one plus or minus the other."""
    if integer(item) is not None:
        return True
    if isinstance(item, ast.BinOp) and isinstance(item.op, (ast.Add, ast.Sub, ast.Mult)):
        return _is_counter(sites, loop, item.left) and _is_counter(sites, loop, item.right)
    if not isinstance(item, ast.Name):
        return False
    for around in (loop, *sites.tree.loops(loop)):
        if isinstance(around, ast.While):
            counted = loop_of(sites, around)
            if counted is not None and counted.index == item.id:
                return True
        if item.id in bound_in(around):
            return item.id in _counters(around) and item.id not in {n for b in body(around) for n in names_bound(b)}
    return False


def _counters(loop: Looping) -> set[str]:
    """The variables of a loop that take the numbers of a `range` or an `enumerate`."""
    if isinstance(loop, ast.While):
        return set()
    heads = [(loop.target, loop.iter)] if isinstance(loop, (ast.For, ast.AsyncFor)) else []
    heads += [] if isinstance(loop, (ast.For, ast.AsyncFor)) else [(g.target, g.iter) for g in loop.generators]
    found: set[str] = set()
    for target, iterable in heads:
        called = dotted(iterable.func) if isinstance(iterable, ast.Call) else None
        if called == "range" and isinstance(target, ast.Name):
            found.add(target.id)
        elif called == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
            found.add(target.elts[0].id)
    return found


# -- a generator's reader runs between its rounds


def _require_no_writer(sites: Sites, loop: Looping) -> None:
    """Raises `RefusedError` if whoever reads a generator may change its tensors between two rounds."""
    # A generator that is an argument runs inside that call.
    at_once = isinstance(loop, ast.GeneratorExp) and _is_unpacked(sites, loop)
    lazy = isinstance(loop, ast.GeneratorExp) and not at_once and not isinstance(sites.tree.parent(loop), ast.Call)
    if not lazy and not any(isinstance(n, (ast.Yield, ast.YieldFrom)) for n in walk(loop)):
        return
    if any(_writes(sites, function) for function in ran_functions(sites.context)):
        raise RefusedError("whoever reads the generator may change the tensor between two rounds")


def _writes(sites: Sites, function: Function) -> bool:
    """Whether a function may change a tensor in place."""
    for node, place in dataflow.changes(function):
        if isinstance(node, ast.Call):
            given = {k.arg for k in node.keywords}
            if is_inplace(getattr(node.func, "attr", "")) or given & {"out", "inplace"}:
                return True
        elif isinstance(node, ast.AugAssign):
            cost = sites.cost(node)
            ours = sites.tree.parent(node) is not None
            if not isinstance(node.target, ast.Name) or not ours or (cost is not None and cost.ops):
                return True
        elif isinstance(node, ast.Subscript) and not _is_collection(function, place):
            return True
    return False


def _is_collection(function: Function, place: str | None) -> bool:
    """Whether a name is bound to lists and dictionaries only."""
    values = {id(n.targets[0]): n.value for n in walk(function) if isinstance(n, ast.Assign) and len(n.targets) == 1}
    bound = bindings(function, place) if place is not None else []
    return bool(bound) and all(isinstance(values.get(id(b)), (ast.List, ast.Dict)) for b in bound)
