"""`torch.stack` and `torch.cat` inside a round, also of what an inner loop fills a list with."""

from __future__ import annotations

import ast

from forwardlens.rules.batched import Batched, RefusedError, Value, put_together
from forwardlens.rules.lifting.scope import Scope
from forwardlens.rules.loops import loop_of
from forwardlens.rules.reducing import joined, leading
from forwardlens.source.tree import argument, dotted, integer, keyword_name


def join(scope: Scope, node: ast.Call, name: str) -> Value:
    """`torch.stack` and `torch.cat` of a written list, or of what an inner loop gives."""
    given = argument(node, 0, "tensors")
    dim = argument(node, 1, "dim")
    number = 0 if dim is None else integer(dim)
    rows = None if given is None else list_of_rounds(scope, given)
    if rows is not None and number is not None and all(keyword_name(k) == "dim" for k in node.keywords):
        value, backwards = rows
        return put_together(value, number, stack=name == "stack", backwards=[backwards])
    if (
        not isinstance(given, (ast.List, ast.Tuple))
        or number is None
        or any(keyword_name(k) != "dim" for k in node.keywords)
    ):
        raise RefusedError(f"`{scope.text(node)}` does not join a list that is written there")
    parts = [scope.lift(e) for e in given.elts]
    scope.meet(parts)
    texts, place, rank = joined(parts, number, name == "stack", scope.depth)
    return leading(f"{scope.text(node.func)}([{', '.join(texts)}], dim={place})", rank, scope.depth)


def list_of_rounds(scope: Scope, node: ast.expr) -> tuple[Batched, bool] | None:
    """What an inner loop or a comprehension fills a list with, and whether it runs backwards. None for others."""
    if isinstance(node, ast.Call) and dotted(node.func) in {"tuple", "list"} and len(node.args) == 1:
        return list_of_rounds(scope, node.args[0])
    if isinstance(node, ast.Name) and node.id in scope.lists:
        return scope.lists[node.id], False
    if not isinstance(node, (ast.ListComp, ast.GeneratorExp)) or len(node.generators) != 1:
        return None
    loop = loop_of(scope.sites, node)
    value = scope.deeper(loop).lift(node.elt) if loop is not None else None
    if loop is None or not isinstance(value, Batched):
        raise RefusedError(f"`{scope.text(node)}` does not run over numbers or a tensor")
    return value, loop.backwards
