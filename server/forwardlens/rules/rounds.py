"""What the rounds of a loop do, seen in the run: small independent work, single elements, random numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from math import ceil, prod

from forwardlens.model import ExpressionCost, OpCost
from forwardlens.rules.callers import in_loop, loop_around, parts_of, rounds_of
from forwardlens.rules.contract import Context, Rule
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.loops import ends_early
from forwardlens.rules.relation import relation
from forwardlens.rules.repeated import LEAST_ROUNDS, body
from forwardlens.rules.statements.sums import added_to_itself
from forwardlens.source.dataflow import names_bound, names_read
from forwardlens.source.tree import Looping, walk

# Operators that only look at memory in another way, or move one number between Python and a tensor.
_LOOKING = frozenset(
    f"aten::{name}"
    for name in """select slice unsqueeze squeeze view reshape transpose permute t expand expand_as as_strided unbind
    split split_with_sizes chunk narrow flatten alias detach item _local_scalar_dense lift_fresh fill_ copy_ is_nonzero
    result_type size stride""".split()
)
# An operator on more elements than this has work of its own that outweighs its dispatch.
_SMALL = 1 << 16
# Shares that are this close to the largest may change places from one run to the next.
_NEARLY = 0.6


def outermost(cost: ExpressionCost) -> Iterator[OpCost]:
    return (op for op in cost.ops if op.outermost and op.name.startswith("aten::"))


def works(cost: ExpressionCost) -> bool:
    """Whether an expression ran an operator that computes something, or looked up a position that a tensor names."""
    names = {op.name for op in outermost(cost)}
    return bool(names - _LOOKING) or ("aten::select" in names and cost.op_calls("aten::item") > 0)


def is_small(cost: ExpressionCost) -> bool:
    """Whether every operator had few elements to work on, so that its dispatch decides what it costs."""
    return all(prod(shape) <= _SMALL for op in outermost(cost) for shape in op.shapes)


def is_ragged(sites: Sites, loop: Looping, node: ast.AST, cost: ExpressionCost) -> bool:
    """Whether the rounds had other shapes than each other.

    An operator that runs another form of itself, as `sum` does, is counted twice and has two shapes in every round.
    Where a function with the loop ran several times, each of its runs may have had shapes of its own.
    """
    entries = ceil(cost.calls / max(1, cost.calls_per_entry)) if loop in sites.tree.loops(node) else 1
    return any(
        op.shape_variants > entries * max(1, op.calls // max(1, cost.calls))
        for op in outermost(cost)
        if op.name not in _LOOKING
    )


def costs_in(sites: Sites, loop: Looping) -> dict[ast.AST, ExpressionCost]:
    """What the rounds of a loop paid, by node."""
    return {node: cost for part in parts_of(sites, loop) for node, cost in sites.inside(part)}


def share_of(sites: Sites, loop: Looping) -> float:
    return sites.share(*parts_of(sites, loop))


def independent(sites: Sites, loop: Looping, nodes: Iterable[ast.AST]) -> bool:
    """Whether what `nodes` compute depends on no other round, but for sums that the rounds add to."""
    statements = {sites.tree.statement(in_loop(sites, loop, node)): node for node in nodes}
    if not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        return True
    if ends_early(loop):
        return False
    parts = [part for statement in statements for part in _tied(statement)]
    return all(relation(sites, loop, part) == "independent" for part in parts)


def _tied(statement: ast.stmt) -> list[ast.expr | ast.stmt]:
    """What of a statement could tie a round to another one: not that a sum or a list grows, under a condition too."""
    if isinstance(statement, ast.If):
        inner = [part for below in (*statement.body, *statement.orelse) for part in _tied(below)]
        return [statement.test, *inner]
    return [*added_to_itself(statement)] or [*_appended(statement)] or [statement]


def _appended(statement: ast.stmt) -> list[ast.expr]:
    """`row` for `rows.append(row)`: that a list grows ties no round to another."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append":
        return call.args
    return []


def sorting(sites: Sites, loop: Looping) -> list[ast.Compare | ast.Call]:
    """The comparisons of a tensor with the loop's own number, as in `labels == c`: the loop goes class by class."""
    targets = variables_of(loop)
    return [
        n
        for part in body(loop)
        for n in walk(part)
        if isinstance(n, (ast.Compare, ast.Call))
        and sites.op(n, "aten::eq") is not None
        and any(isinstance(o, ast.Name) and o.id in targets for o in _operands(n))
    ]


def _operands(node: ast.Compare | ast.Call) -> list[ast.expr]:
    return [node.left, *node.comparators] if isinstance(node, ast.Compare) else node.args


def claimed(context: Context, sites: Sites, rules: Iterable[Rule]) -> dict[ast.AST, bool]:
    """The loops around what more specific rules find: one cause is one finding. And whether a fix removes the loop."""
    found: dict[ast.AST, bool] = {}
    for rule in rules:
        for match in context.matches(rule):
            for node in sites.tree.at(match.span)[:1]:
                around = loop_around(sites, node)
                if around is not None:
                    found[around[0]] = found.get(around[0], False) or bool(match.fixes)
    return found


def is_element(sites: Sites, node: ast.AST) -> bool:
    """Whether an index leaves no dimension of a tensor."""
    if not isinstance(node, ast.Subscript) or sites.op(node, "aten::select") is None:
        return False
    items = index_items(node)
    plain = not any(
        isinstance(i, ast.Slice) or (isinstance(i, ast.Constant) and type(i.value) is not int) for i in items
    )
    cost = sites.cost(node)
    ranks = [len(o.shapes[0]) for o in outermost(cost) if o.name == "aten::select" and o.shapes] if cost else []
    return plain and bool(ranks) and max(ranks) == len(items)


def only_elements(sites: Sites, loop: Looping) -> bool:
    """Whether the rounds work on single elements only."""
    for node, cost in costs_in(sites, loop).items():
        if isinstance(node, ast.Subscript) and sites.op(node, "aten::select") is not None:
            if not is_element(sites, node):
                return False
        elif any(shape for op in outermost(cost) for shape in op.shapes):
            return False
    return True


def pairs(sites: Sites, loop: Looping) -> bool:
    """Whether the rounds bring together what this loop gives and what a loop further out gives."""
    inner, outer = variables_of(loop), next(sites.tree.loops(loop), None)
    if isinstance(loop, (ast.ListComp, ast.GeneratorExp)) and len(loop.generators) == 2:
        outside, inner = (names_bound(g.target) for g in loop.generators)
    elif isinstance(outer, (ast.For, ast.ListComp, ast.GeneratorExp)):
        outside = variables_of(outer)
    else:
        return False
    written = {
        id(below)
        for part in body(loop)
        for n in walk(part)
        if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store)
        for below in walk(n)
    }
    alone: set[bool] = set()
    for node in (n for part in body(loop) for n in walk(part)):
        if id(node) in written:
            continue
        if isinstance(node, ast.Subscript) and names_read(node) & inner and names_read(node) & outside:
            return False
        if isinstance(node, ast.Name):
            alone |= {side for side, names in ((True, inner), (False, outside)) if node.id in names}
    return alone == {True, False}


def variables_of(loop: Looping) -> set[str]:
    """The names that the head of a loop gives a value in every round."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        return set(names_bound(loop.target))
    return set() if isinstance(loop, ast.While) else {name for g in loop.generators for name in names_bound(g.target)}


def working(sites: Sites, loop: Looping) -> dict[ast.AST, ExpressionCost]:
    """The expressions of a loop that compute something in every round."""
    return {n: c for n, c in costs_in(sites, loop).items() if rounds_of(sites, n) >= LEAST_ROUNDS and works(c)}


def first_of_the_costliest(work: Mapping[ast.AST, ExpressionCost]) -> ast.AST:
    """Of expressions that cost about the same the first: where a finding is must not hang on the run."""
    return first_of_the_largest({node: cost.share for node, cost in work.items()})


def first_of_the_largest(shares: Mapping[ast.AST, float]) -> ast.AST:
    """The same for nodes with the shares of the forward that they stand for."""
    most = max(shares.values())
    near = (node for node, share in shares.items() if share >= _NEARLY * most)
    return min(near, key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
