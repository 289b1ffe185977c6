"""Sharing out the cost of a whole line among its expressions.

Python 3.10 and traces from elsewhere know the line of an operator but no columns. An operator tells by its name what
kind of expression ran it; where a line has one such expression only, that is the place.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

from forwardlens.model import ExpressionCost, OpCost
from forwardlens.source.tree import Tree, dotted, walk

_INDEXING = frozenset({"select", "slice", "index", "unsqueeze"})
_STORING = frozenset({"copy_", "fill_", "lift_fresh", "index_put_"})
# Methods of containers and tensors that stand around look-ups without running an operator of their own.
_PLAIN_METHODS = frozenset({"append", "extend", "size", "dim", "numel", "items", "keys", "values"})


def is_whole_line(tree: Tree, cost: ExpressionCost) -> bool:
    return cost.span == tree.source.line_span(cost.span.line)


def shared_out(
    tree: Tree, cost: ExpressionCost, operators: Mapping[type[ast.AST], str]
) -> Iterator[tuple[ast.AST, ExpressionCost]]:
    """The parts of a line's cost that have one possible place, and the rest at the line's first statement.

    `operators` names what runs for each kind of Python operator, several names with spaces between them.
    """
    nodes = _by_line(tree.module).get(cost.span.line, ())
    placed: dict[ast.AST, list[OpCost]] = {}
    rest: list[OpCost] = []
    built = _built(tree.module)
    for op in (o for o in cost.ops if o.outermost):
        places = list(_places(op, nodes, operators, built))
        if len(places) == 1:
            placed.setdefault(places[0], []).append(op)
        else:
            rest.append(op)
    statement = next((n for n in nodes if isinstance(n, ast.stmt)), None)
    total = sum(op.self_ms for op in cost.ops)
    # Which operator ran the inner ones is not known: every part may have.
    inner = [op for op in cost.ops if not op.outermost]
    for node, ops in placed.items():
        yield node, _part(cost, [*ops, *inner], sum(op.total_ms for op in ops) / total if total else 0.0)
    if statement is not None and statement not in placed:
        used = sum(op.total_ms for ops in placed.values() for op in ops)
        yield statement, _part(cost, rest, max(0.0, 1.0 - used / total) if total else 1.0)


@lru_cache(maxsize=16)
def _by_line(module: ast.Module) -> Mapping[int, Sequence[ast.expr | ast.stmt]]:
    """The nodes that start on each line, remembered because each line's cost asks."""
    found: dict[int, list[ast.expr | ast.stmt]] = {}
    for node in walk(module):
        if isinstance(node, (ast.expr, ast.stmt)):
            found.setdefault(node.lineno, []).append(node)
    return found


def _part(cost: ExpressionCost, ops: list[OpCost], fraction: float) -> ExpressionCost:
    return replace(
        cost,
        self_ms=cost.self_ms * fraction,
        total_ms=cost.total_ms * fraction,
        share=cost.share * fraction,
        ops=tuple(ops),
    )


def _places(
    op: OpCost,
    nodes: Sequence[ast.expr | ast.stmt],
    operators: Mapping[type[ast.AST], str],
    built: Mapping[str, str],
) -> Iterator[ast.AST]:
    """The expressions of a line that may have run an operator."""
    name = op.name.removeprefix("aten::")
    if name in _INDEXING:
        yield from (n for n in nodes if isinstance(n, ast.Subscript) and _takes_a_slice(n))
        return
    if name in _STORING:
        yield from (n for n in nodes if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
        return
    symbols = [n for n in nodes if name in operators.get(_symbol(n), "").split()]
    called = [n for n in nodes if isinstance(n, ast.Call) and _name(n) == name]
    if symbols or called:
        yield from (*symbols, *called)
        return
    modules = [n for n in nodes if isinstance(n, ast.Call) and _may_be_module(n)]
    fitting = [n for n in modules if built.get(_name(n), "").lower() == name.replace("_", "")]
    yield from fitting or modules


@lru_cache(maxsize=16)
def _built(module: ast.Module) -> dict[str, str]:
    """The class that each attribute is built from, as in `self.word = nn.Embedding(100, 8)`."""
    found: dict[str, str] = {}
    for node in walk(module):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            for target in node.targets:
                if isinstance(target, ast.Attribute):
                    found[target.attr] = (dotted(node.value.func) or "").split(".")[-1]
    return found


def _takes_a_slice(node: ast.Subscript) -> bool:
    """`x.shape[0]` indexes a tuple."""
    return not (isinstance(node.value, ast.Attribute) and node.value.attr == "shape")


def _symbol(node: ast.AST) -> type[ast.AST]:
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        return type(node.op)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return type(node.ops[0])
    return ast.AST


def _name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _may_be_module(call: ast.Call) -> bool:
    """A call of something by a name that is no function of PyTorch's: `self.word(ids)`, `layer(x)`."""
    if isinstance(call.func, ast.Attribute):
        owner = call.func.value
        return isinstance(owner, ast.Name) and owner.id == "self" and call.func.attr not in _PLAIN_METHODS
    return isinstance(call.func, ast.Name) and not hasattr(builtins, call.func.id)
