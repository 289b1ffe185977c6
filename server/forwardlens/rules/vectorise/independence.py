"""What forbids to do all rounds at once: a round that reads what another wrote, or no round at all."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TypeGuard

from forwardlens.rules.batched import RefusedError
from forwardlens.rules.evidence import Sites
from forwardlens.rules.loops import Loop
from forwardlens.rules.relation import named_slices
from forwardlens.rules.statements.rounds import Rounds
from forwardlens.rules.statements.work import INPLACE
from forwardlens.source.dataflow import METADATA, aliases, changes, overlap, root
from forwardlens.source.tree import dotted, walk


def require_independent(sites: Sites, loop: Loop, node: ast.For | ast.While, rounds: Rounds) -> None:
    """Refuse if a round may read what another one wrote."""
    texts = {text for text, _ in rounds.written}
    places = {place for _, place in rounds.written}
    own = frozenset(rounds.bound | {name for inner in rounds.loops for name in inner.variables})
    for place in places:
        shared = aliases(loop.function, place)
        if any(other != place and any(overlap(other, s) for s in shared) for other in places):
            raise RefusedError(f"`{place}` may share its memory with something else that the loop writes")
        for inner in rounds.loops:
            named = named_slices(sites, inner.node)
            for name, element in inner.elements.items():
                base = root(element.base) or ""
                if not texts & {name, named.get(name, "")} and any(overlap(base, s) for s in shared):
                    raise RefusedError(f"`{name}` is a slice of what the loop writes to")
        for statement in loop.body:
            for read in walk(statement):
                if _reads_elsewhere(sites, read, shared, texts, own):
                    raise RefusedError(f"a round may read what another one wrote to `{place}`")
    for appended in rounds.appended:
        if sum(is_named(n, appended.name) for n in walk(node)) != 1:
            raise RefusedError(f"`{appended.name}` is read inside the loop")
    for name in rounds.totals:
        shared = aliases(loop.function, name) - {name}
        if any(overlap(place, s) for place in places for s in shared) or _adds_in_place(node, name, shared):
            raise RefusedError(f"`{name}` may share its memory with something else")
    known = {*places, *rounds.totals, *(a.name for a in rounds.appended)}
    steps = set(node.body) - {*loop.body}
    for changed, place in changes(node):
        if changed not in steps and (place is None or not (place in known or place in own)):
            raise RefusedError(f"the loop changes `{place}`")


def _adds_in_place(node: ast.For | ast.While, name: str, shared: frozenset[str]) -> bool:
    """Whether `name += part` may change a tensor that the loop reads under another name."""
    augmented = any(isinstance(n, ast.AugAssign) and dotted(n.target) == name for n in walk(node))
    reads = {dotted(n) for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))}
    return augmented and any(r is not None and overlap(r, s) for r in reads for s in shared)


def _reads_elsewhere(
    sites: Sites, read: ast.AST, shared: frozenset[str], texts: set[str], bound: frozenset[str]
) -> bool:
    """Whether `read` may see memory of `place` beyond the slice that the round itself writes."""
    if not isinstance(read, (ast.Name, ast.Attribute)) or isinstance(read.ctx, ast.Store):
        return False
    name = dotted(read)
    parent = sites.tree.parent(read)
    if name is None:
        return False
    if isinstance(parent, ast.Attribute) and parent.attr not in METADATA:
        # Of `self.cache.data` only the longest chain counts; a method call on a place is a read of it.
        grand = sites.tree.parent(parent)
        if not (isinstance(grand, ast.Call) and grand.func is parent):
            return False
    if not any(overlap(name, s) for s in shared) or name.split(".")[0] in bound or name == "self":
        return False
    if any(isinstance(n, ast.Attribute) and n.attr in METADATA for n in (read, parent)):
        return False
    return not (isinstance(parent, ast.Subscript) and parent.value is read and sites.tree.text(parent) in texts)


def is_named(node: ast.AST, name: str) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id == name


def written_places(loop: Loop, node: ast.AST) -> frozenset[str]:
    """The places that a loop writes into, and all that may share memory with them; "" for one that is not plain."""
    places = {root(target) or "" for n in walk(node) if (target := _written_to(n)) is not None}
    return frozenset(place for written in places for place in aliases(loop.function, written))


def _written_to(node: ast.AST) -> ast.expr | None:
    """`x[:, t]` for `x[:, t] = v` and for `x[:, t].zero_()`."""
    if isinstance(node, ast.Subscript):
        return node if isinstance(node.ctx, ast.Store) else None
    called = node.func if isinstance(node, ast.Call) else None
    return called.value if isinstance(called, ast.Attribute) and called.attr in INPLACE else None


def require_rounds(needs_rounds: Sequence[str]) -> None:
    """Refuse what would fail where a loop has no rounds. To stack nothing fails before and after."""
    if needs_rounds:
        raise RefusedError(f"`{needs_rounds[0]}` would fail where the loop has no rounds")
