"""One expression for all rounds before a loop that has to stay."""

from __future__ import annotations

import ast
from collections import Counter

from forwardlens.model import Edit
from forwardlens.rules.batched import Batched, Fixed, RefusedError, arranged, indexed
from forwardlens.rules.effects import may_train
from forwardlens.rules.evidence import Sites
from forwardlens.rules.lifting.inlining import results_of_all
from forwardlens.rules.lifting.lifter import Lifter, lifter_for
from forwardlens.rules.loops import Loop, leaves_early, loop_of, skips_rounds
from forwardlens.rules.relation import changes_by_rounds
from forwardlens.rules.vectorise.independence import require_rounds
from forwardlens.source.dataflow import aliases_of_all, names_read, overlap
from forwardlens.source.rewrite import checked, insert_before, replace_node, stands_alone
from forwardlens.source.tree import Function, assigned, dotted, walk


def hoisted(sites: Sites, call: ast.expr, wanted: str) -> tuple[Edit, ...]:
    """Compute `call` for all rounds before the loop, into a new name, and take the round's part inside it.

    Where the loop has no counter, it gets one, or runs over the parts where only `call` reads its variable.
    Raises `RefusedError`.
    """
    tree = sites.tree
    loop, node, lifter = _plain_loop(sites, call)
    value = lifter.lift(call)
    if isinstance(value, Fixed):
        raise RefusedError("every round gives the same value")
    require_rounds(lifter.needs_rounds)
    value = arranged(value, value.natural)
    _require_unchanged(sites, loop, node, call)
    name = sites.fresh_name(loop.function, call, wanted)
    if loop.index is not None:
        inside = [replace_node(sites.source, call, indexed(name, [*[":"] * value.loop, loop.index]))]
    elif isinstance(node, ast.While) or loop.backwards:
        raise RefusedError("the loop has no counter to pick a round's part with")
    else:
        inside = _iterated_parts(sites, loop, node, call, f"{name}.unbind({value.loop})" if value.loop else name)
        inside = inside or _counted_parts(sites, loop, node, call, name, value.loop)
    lines = [*lifter.lines_in_front(), *lifter.lines_before(value.text), f"{name} = {value.text}"]
    edits = checked(
        sites.source, [insert_before(tree, node, [lifter.lengths.finished(line) for line in lines]), *inside]
    )
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def hoisted_results(sites: Sites, call: ast.Call, function: Function) -> tuple[Edit, ...]:
    """`erase, add = self.gates(x[:, t])` for all rounds before the loop, and the round's parts of both inside it."""
    loop, node, lifter = _plain_loop(sites, call)
    statement = sites.tree.parent(call)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    names = _named(target)
    text, values = results_of_all(lifter, call, function)
    if loop.index is None or not names or len(names) != len(values):
        raise RefusedError("the loop has no counter to pick a round's part with")
    require_rounds(lifter.needs_rounds)
    _require_unchanged(sites, loop, node, call)
    whole = [sites.fresh_name(loop.function, element, f"{name}_rows") for name, element in names]
    parts = [indexed(w, [*[":"] * v.loop, loop.index]) for w, v in zip(whole, values, strict=True)]
    lines = [*lifter.lines_in_front(), f"{', '.join(whole)} = {text}"]
    before = insert_before(sites.tree, node, [lifter.lengths.finished(line) for line in lines])
    edits = checked(sites.source, [before, replace_node(sites.source, call, ", ".join(parts))])
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def _named(target: ast.expr | None) -> list[tuple[str, ast.Name]]:
    return [(e.id, e) for e in target.elts if isinstance(e, ast.Name)] if isinstance(target, ast.Tuple) else []


def _plain_loop(sites: Sites, call: ast.expr) -> tuple[Loop, ast.For | ast.While, Lifter]:
    """The loop around an expression that every round computes, and a lifter that knows what the round has made."""
    tree = sites.tree
    node = next(tree.loops(call), None)
    loop = loop_of(sites, node) if isinstance(node, (ast.For, ast.While)) else None
    if loop is None or not isinstance(node, (ast.For, ast.While)):
        raise RefusedError("the loop does not count up or run over a tensor")
    if loop.start or loop.step > 1:
        raise RefusedError("the loop does not count from 0 in steps of 1")
    if leaves_early(node) or skips_rounds(node) or tree.statement(call) not in loop.body:
        raise RefusedError("it does not happen in every round")
    if not stands_alone(tree, node):
        raise RefusedError("the loop shares a line with other code")
    lifter = lifter_for(sites, loop)
    _know_temporaries(lifter, node, tree.statement(call))
    made = sorted(names_read(call) & lifter.bound - lifter.values.keys())
    if made:
        raise RefusedError(f"`{made[0]}` is computed in the same round")
    return loop, node, lifter


def _iterated_parts(sites: Sites, loop: Loop, node: ast.For, call: ast.expr, parts: str) -> list[Edit]:
    """Run the loop over `parts`, whose round's part takes the place of `call`; empty if it needs its variables."""
    names = list(loop.elements)
    used = [n for n in walk(loop.function) if isinstance(n, ast.Name) and n.id in names]
    inside = {id(n) for n in walk(call)}
    alone = all(id(n) in inside for n in used if n is not node.target)
    if not alone or names != [dotted(node.target)]:
        return []
    return [replace_node(sites.source, node.iter, parts), replace_node(sites.source, call, names[0])]


def _counted_parts(sites: Sites, loop: Loop, node: ast.For, call: ast.expr, name: str, axis: int) -> list[Edit]:
    """Count the rounds with `enumerate`, and take the part of `name` that the number says."""
    counter = sites.fresh_name(loop.function, node, "step")
    target, over = sites.tree.text(node.target), sites.tree.text(node.iter)
    target = f"({target})" if isinstance(node.target, ast.Tuple) and not target.startswith("(") else target
    return [
        replace_node(sites.source, node.target, f"{counter}, {target}"),
        replace_node(sites.source, node.iter, f"enumerate({over})"),
        replace_node(sites.source, call, indexed(name, [*[":"] * axis, counter])),
    ]


def _know_temporaries(lifter: Lifter, node: ast.For | ast.While, until: ast.stmt) -> None:
    """Let the lifter see through `ids = x[:, t]` in front of the expression."""
    stores = Counter(n.id for n in walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    for statement in node.body[: node.body.index(until)]:
        for target, given in assigned(statement):
            if not isinstance(target, ast.Name) or stores[target.id] != 1:
                continue
            try:
                value = lifter.lift(given)
            except RefusedError:
                continue
            if isinstance(value, Batched) and value.view:
                lifter.values[target.id] = value


def _require_unchanged(sites: Sites, loop: Loop, node: ast.For | ast.While, call: ast.expr) -> None:
    """Refuse if a round may change what the expression reads."""
    reads = {place for n in walk(call) if isinstance(n, (ast.Name, ast.Attribute)) and (place := dotted(n))}
    shared = aliases_of_all(loop.function, reads - {"self"}) - {"self"}
    for _, place in changes_by_rounds(sites, node):
        if place is None or any(overlap(place, s) for s in shared):
            raise RefusedError(f"the loop changes `{place}`")
    if may_train(sites, node):
        raise RefusedError("the weights may change inside the loop")
