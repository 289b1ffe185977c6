"""What the rounds of a loop have to do with each other: what one reads of what another wrote."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal

from forwardlens.rules.effects import Change, changes
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.heads import size_expression
from forwardlens.rules.loops import counting, loop_of
from forwardlens.source.dataflow import METADATA, aliases, bindings, is_inplace, names_bound, names_read, overlap, root
from forwardlens.source.tree import Looping, Tree, dotted, integer, range_arguments, walk

Relation = Literal["independent", "carried", "unknown"]


def relation(sites: Sites, loop: ast.AST, node: ast.expr | ast.stmt) -> Relation:
    """Whether what `node` computes in a round depends on what an earlier round computed.

    "carried" if it reads a name that the loop binds later or under a condition, or memory that the loop changes at
    another place than the one `node` itself writes; "unknown" if the loop's form does not tell.
    """
    function = sites.tree.function(loop)
    if function is None:
        return "unknown"
    if not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        return "independent"
    reads = _inputs(sites, loop, node)
    if reads is None:
        return "carried"
    named = named_slices(sites, loop)
    # A slice under a name is the round's own only if the loop gives it.
    targets = _targets(sites.tree, loop)
    for changed, place in changes_by_rounds(sites, loop):
        if place is None:
            return "unknown"
        written = _slice_written(changed)
        if isinstance(written, ast.Name) and written.id not in targets:
            written = None
        if _is_list_append(changed):
            if place in {name for name, _ in reads}:
                return "carried"
            continue
        shared = aliases(function, place)
        # A slice that the loop's own variables do not pick may be another round's as well.
        text = sites.tree.text(written) if written is not None and _is_own_slice(sites, loop, written) else None
        # What is only written there, in whatever order the rounds run, is not read.
        plain = written is not None and (text is not None or _sets_the_same(sites.tree, loop, written))
        target = written if plain else _added_to(sites.tree.parent(changed)) or _added_to(changed)
        for name, read in reads:
            if target is not None and read is _base(target):
                continue
            if any(overlap(name, s) for s in shared) and not (
                _same_slice(sites.tree, read, text, named)
                or (text is not None and _of_one_round(sites, loop, read, written))
            ):
                return "carried"
    return "independent"


def changes_by_rounds(sites: Sites, loop: Looping) -> Iterator[Change]:
    """What the rounds of a loop change in place, but for the counter of a `while` loop, which is a number."""
    steps = loop.body[-1] if isinstance(loop, ast.While) and loop_of(sites, loop) is not None else None
    return (change for change in changes(sites, loop) if change[0] is not steps)


def _targets(tree: Tree, loop: ast.For | ast.AsyncFor | ast.While) -> set[str]:
    """The names that the loop itself gives a value in every round."""
    if isinstance(loop, ast.While):
        function = tree.function(loop)
        counted = counting(tree, function, loop) if function is not None else None
        return set() if counted is None or counted.index is None else {counted.index}
    return set(names_bound(loop.target))


def _is_own_slice(sites: Sites, loop: ast.For | ast.AsyncFor | ast.While, written: ast.expr) -> bool:
    """Whether each round has a slice of its own there: a slice that the loop gives, or one that its counter picks."""
    head = loop_of(sites, loop)
    if isinstance(written, ast.Name) or (head is not None and root(written) in head.elements):
        return True
    counters, items = _counters(sites, loop, written), list[ast.expr]()
    while isinstance(written, ast.Subscript):
        items += index_items(written)
        written = written.value
    return any(_is_one_to_one(item) and names_read(item) & counters for item in items)


def _counters(sites: Sites, loop: ast.For | ast.AsyncFor | ast.While, written: ast.expr) -> set[str]:
    """The names in `written` that are another number in every round."""
    head = loop_of(sites, loop)
    counts = isinstance(loop, ast.For) and range_arguments(loop.iter) is not None
    index = set[str]() if head is None or head.index is None else {head.index}
    counters = index if head is not None or not counts else _targets(sites.tree, loop)
    body = {n for s in loop.body for n in names_bound(s)}
    return counters | {name for name in names_read(written) & body if _is_running_number(sites, loop, name)}


def _of_one_round(
    sites: Sites, loop: ast.For | ast.AsyncFor | ast.While, read: ast.AST, written: ast.expr | None
) -> bool:
    """Whether `x[i, 0]` is read and `x[i, 1]` written: both lie in what is this round's alone."""
    tree, parent = sites.tree, sites.tree.parent(read)
    while isinstance(written, ast.Subscript) and isinstance(written.value, ast.Subscript):
        written = written.value
    if not isinstance(written, ast.Subscript) or not isinstance(parent, ast.Subscript) or parent.value is not read:
        return False
    if tree.text(written.value) != tree.text(parent.value):
        return False
    counters = _counters(sites, loop, written)
    for one, other in zip(index_items(parent), index_items(written), strict=False):
        same = tree.text(one) == tree.text(other)
        if same and _is_one_to_one(one) and names_read(one) & counters:
            return True
        # What stands in front has to take one axis in both.
        if not same and not all(isinstance(item, ast.Slice) or integer(item) is not None for item in (one, other)):
            return False
    return False


def _sets_the_same(tree: Tree, loop: ast.For | ast.AsyncFor | ast.While, written: ast.expr) -> bool:
    """Whether every round gives what it writes to the same value, so that the order of rounds does not matter."""
    statement = tree.parent(written)
    if not isinstance(statement, ast.Assign) or written not in statement.targets:
        return False
    own = _targets(tree, loop) | {n for s in loop.body for n in names_bound(s)}
    return not names_read(statement.value) & own


def _base(node: ast.expr) -> ast.expr:
    """`x` for `x[i][:n]`."""
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def _is_one_to_one(item: ast.expr) -> bool:
    """Whether an index of a counter is another one for every number: `t + 1`, but not `t % 2` or `order[t]`."""
    many = (ast.Subscript, ast.Call, ast.Mod, ast.FloorDiv, ast.IfExp)
    return not any(isinstance(n, many) for n in walk(item))


def _added_to(node: ast.AST | None) -> ast.expr | None:
    """What a statement like `x[i] += part` adds to: the order of such rounds does not matter."""
    return node.target if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)) else None


def _slice_written(node: ast.AST) -> ast.Subscript | ast.Name | None:
    """`x[:, t]` where it is assigned to, augmented, or changed by a method like `masked_fill_` or as `out=x[:, t]`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Subscript):
        return node.target
    if isinstance(node, ast.Call):
        inplace = isinstance(node.func, ast.Attribute) and is_inplace(node.func.attr)
        out = next((k.value for k in node.keywords if k.arg == "out"), None)
        changed = node.func.value if inplace and isinstance(node.func, ast.Attribute) else out
        return changed if isinstance(changed, (ast.Subscript, ast.Name)) else None
    return node if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) else None


def _is_list_append(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"


def named_slices(sites: Sites, loop: ast.AST) -> dict[str, str]:
    """The loop variables that are slices, as they could be indexed: `{"row": "x[i]"}` for `enumerate(x)`."""
    head = loop_of(sites, loop)
    if head is None or head.index is None:
        return {}
    return {
        name: f"{sites.tree.text(element.base)}[{head.index}]"
        for name, element in head.elements.items()
        if element.axis == 0 and dotted(element.base) is not None
    }


def _same_slice(tree: Tree, read: ast.AST, text: str | None, named: dict[str, str]) -> bool:
    """Whether a read is of the same slice that is written, or of a fact about the tensor only."""
    parent = tree.parent(read)
    if any(isinstance(n, ast.Attribute) and n.attr in METADATA for n in (read, parent)):
        return True
    name = read.value if isinstance(read, ast.Attribute) else read
    if isinstance(name, ast.Name) and text is not None and text in {name.id, named.get(name.id)}:
        return True
    return isinstance(parent, ast.Subscript) and parent.value is read and tree.text(parent) == text


def _inputs(
    sites: Sites, loop: ast.For | ast.AsyncFor | ast.While, node: ast.expr | ast.stmt
) -> list[tuple[str, ast.AST]] | None:
    """The places from outside the loop that `node` reads, through the names of the round. None if one is carried."""
    tree, targets = sites.tree, _targets(sites.tree, loop)
    found: list[tuple[str, ast.AST]] = []
    statement = tree.statement(node)
    for read in walk(node):
        if not isinstance(read, (ast.Name, ast.Attribute)) or not isinstance(read.ctx, ast.Load):
            continue
        place = dotted(read)
        if place is None or (
            isinstance(tree.parent(read), ast.Attribute) and isinstance(read, ast.Name) and read.id == "self"
        ):
            continue
        name = place.split(".")[0]
        if name in targets or name not in _bound_in_rounds(loop):
            found.append((place, read))
            continue
        source = _definition_in_round(tree, loop, statement, name)
        if source is None and _is_running_number(sites, loop, name):
            continue
        if source is None:
            return None
        inner = _inputs(sites, loop, source)
        if inner is None:
            return None
        found += inner
    return found


@lru_cache(maxsize=512)
def _bound_in_rounds(loop: ast.For | ast.AsyncFor | ast.While) -> frozenset[str]:
    return frozenset(name for statement in loop.body for name in names_bound(statement))


def _is_running_number(sites: Sites, loop: ast.AST, name: str) -> bool:
    """Whether a name only ever is a whole number that the source counts up: `lo` of `hi = lo + width`, `lo = hi`."""
    tree = sites.tree
    function = tree.function(loop)
    seen, left = {name}, [name]
    while function is not None and left:
        for store in bindings(function, left.pop()):
            value = tree.parent(store)
            if not isinstance(value, (ast.Assign, ast.AugAssign)) or not _is_counting(value.value):
                return False
            if any(cost.ops for _, cost in sites.inside(value)):
                return False
            others = names_read(value.value) - seen - {"self"}
            seen |= others
            left += [other for other in others if bindings(function, other)]
    return function is not None


def _is_counting(node: ast.expr) -> bool:
    """Whether an expression is whole numbers and names, added and multiplied; a chain may be longer than the stack."""
    left = [node]
    while left:
        part = left.pop()
        if isinstance(part, ast.BinOp) and isinstance(part.op, (ast.Add, ast.Sub, ast.Mult)):
            left += [part.left, part.right]
        elif integer(part) is None and not isinstance(part, (ast.Name, ast.Attribute)) and not size_expression(part):
            return False
    return True


def _definition_in_round(
    tree: Tree, loop: ast.For | ast.AsyncFor | ast.While, statement: ast.stmt, name: str
) -> ast.expr | None:
    """What a name of the round was last bound to before `statement`, if that happens in every round."""
    path = [statement, *(a for a in tree.ancestors(statement) if isinstance(a, ast.stmt))]
    for inner in path:
        if inner is loop:
            return None
        block = tree.block(inner)
        for earlier in reversed(block[: block.index(inner)]):
            if name in names_bound(earlier):
                single = isinstance(earlier, ast.Assign) and all(
                    isinstance(t, (ast.Name, ast.Tuple)) for t in earlier.targets
                )
                return earlier.value if single and isinstance(earlier, ast.Assign) else None
    return None
