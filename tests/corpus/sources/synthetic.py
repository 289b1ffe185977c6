"""A profile in which everything costs: plausible operators on every expression of a file, loops run many times.

The rules' gates are evidence from a run. Without one they stay shut and nothing behind them is exercised, so this
opens them all at once, on any file.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from forwardlens.model import (
    Environment,
    ExpressionCost,
    Forward,
    GradUse,
    OpCost,
    Profile,
    Quantiles,
    Shape,
    Span,
)
from forwardlens.rules.evidence import index_items
from forwardlens.source.text import SourceText
from forwardlens.source.tree import Tree, dotted, tree_of

MEDIAN_MS = 100.0
ROUNDS = 64
_SHAPES: tuple[Shape, ...] = ((4, 16, 32), (4, 8, 16, 16), (16, 32), (32,), (4, 16), ())
_ARITHMETIC: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.BitAnd: "__and__",
    ast.BitOr: "__or__",
    ast.BitXor: "__xor__",
}
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Eq: "eq",
    ast.NotEq: "ne",
}
# What a call of something that no operator is named after may have been: a module.
_MODULES = (
    "linear conv2d embedding layer_norm batch_norm dropout relu gelu softmax lstm scaled_dot_product_attention".split()
)
_READS = frozenset("item tolist float int bool cpu numpy".split())
_CASTS = frozenset("to float half double long int type cuda cpu bfloat16".split())
_COPIES = frozenset("contiguous clone repeat tile".split())
# Methods and functions of Python that run no operator.
_PLAIN = frozenset(
    """append extend len isinstance range enumerate zip print get items keys values format join split strip startswith
    endswith lower upper super getattr setattr hasattr ValueError TypeError RuntimeError list tuple dict set
    sorted""".split()
)


@dataclass(frozen=True)
class Circumstances:
    """What the whole run was like; rules look at these too."""

    device: str = "cpu"
    training: bool = False
    grad: bool = True
    backward: bool = False


CIRCUMSTANCES = (
    Circumstances(),
    Circumstances("cuda:0", training=True, backward=True),
    Circumstances("cpu", grad=False),
)


def profile_of(source: SourceText, circumstances: Circumstances, seed: int) -> Profile:
    """A profile of `source` alone; the same for the same arguments. Empty if the text does not parse."""
    tree = tree_of(source)
    costs = () if tree is None else tuple(_costs(tree, circumstances, random.Random(seed)))
    return profile_with(source, costs, circumstances)


def profile_with(source: SourceText, costs: tuple[ExpressionCost, ...], circumstances: Circumstances) -> Profile:
    on_device = circumstances.device != "cpu"
    return Profile(
        "synthetic",
        None,
        Environment(
            "3.11.0",
            "2.13.0",
            "linux",
            circumstances.device,
            "made up",
            "13.0" if on_device else None,
            "580" if on_device else None,
            1,
            circumstances.grad,
            circumstances.training,
        ),
        Forward(
            Quantiles(MEDIAN_MS, MEDIAN_MS, MEDIAN_MS, 10),
            10.0 if on_device else None,
            5.0 if on_device else None,
            1 << 20 if on_device else None,
            "dispatch",
        ),
        GradUse(
            grad_enabled=circumstances.grad,
            inference_mode=False,
            training=circumstances.training,
            outputs_require_grad=circumstances.grad,
            backward_ran=circumstances.backward,
        ),
        0.0,
        costs,
        {source.path: source.text},
        outermost=tuple(_by_cost(costs)),
    )


def _by_cost(costs: tuple[ExpressionCost, ...]) -> list[tuple[str, str]]:
    """The functions that have costs, as if each called the one after it."""
    totals = Counter[tuple[str, str]]()
    for cost in costs:
        totals[cost.span.file, cost.function] += 1
    return [function for function, _ in totals.most_common()]


def _costs(tree: Tree, circumstances: Circumstances, chance: random.Random) -> Iterator[ExpressionCost]:
    seen: set[Span] = set()
    for function in tree.functions():
        name = tree.qualname(function)
        for node in (below for statement in function.body for below in ast.walk(statement)):
            if not isinstance(node, (ast.expr, ast.AugAssign)) or tree.function(node) is not function:
                continue
            ops = tuple(_ops(tree, node, chance))
            span = tree.source.span(node)
            if ops and span not in seen:
                seen.add(span)
                yield _cost(tree, node, name, ops, circumstances, chance)


def _cost(
    tree: Tree,
    node: ast.expr | ast.AugAssign,
    function: str,
    ops: tuple[OpCost, ...],
    circumstances: Circumstances,
    chance: random.Random,
) -> ExpressionCost:
    runs = ROUNDS ** min(2, sum(1 for _ in tree.loops(node)))
    share = chance.choice((0.004, 0.03, 0.08, 0.3))
    on_device = circumstances.device != "cpu"
    return ExpressionCost(
        tree.source.span(node),
        function,
        runs,
        runs,
        share * MEDIAN_MS,
        share * MEDIAN_MS,
        share,
        0.1 * share * MEDIAN_MS if on_device else 0.0,
        0.5 * share * MEDIAN_MS if on_device else 0.0,
        1 << 16,
        tuple(_scaled(op, runs, share * MEDIAN_MS / len(ops), on_device) for op in ops),
        0.3 * share * MEDIAN_MS if circumstances.backward else 0.0,
    )


def _scaled(op: OpCost, runs: int, ms: float, on_device: bool) -> OpCost:
    return OpCost(
        op.name,
        op.calls * runs,
        ms,
        ms,
        0.1 * ms if on_device else 0.0,
        1 << 16,
        op.shapes,
        op.shape_variants,
        op.outermost,
    )


def _op(name: str, shapes: tuple[Shape, ...], variants: int = 1, *, inner: bool = False) -> OpCost:
    return OpCost(f"aten::{name}", 1, 0.0, 0.0, 0.0, 0, shapes, variants, not inner)


def _ops(tree: Tree, node: ast.expr | ast.AugAssign, chance: random.Random) -> Iterator[OpCost]:
    shape = chance.choice(_SHAPES)
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        other = () if isinstance(node.right, ast.Constant) else shape
        yield _op(_ARITHMETIC[type(node.op)], (shape, other))
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        yield _op(f"{_ARITHMETIC[type(node.op)]}_", (shape, shape))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.Invert)):
        if not isinstance(node.operand, ast.Constant):
            yield _op("neg" if isinstance(node.op, ast.USub) else "bitwise_not", (shape,))
    elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        yield _op(_COMPARISONS[type(node.ops[0])], (shape, shape))
    elif isinstance(node, ast.Subscript):
        yield from _indexing(node, chance)
    elif isinstance(node, ast.Call):
        yield from _called(node, shape, chance)
    if isinstance(node, (ast.Call, ast.Compare)) and _is_tested(tree, node) and chance.random() < 0.5:
        yield _op("is_nonzero", ((),))
        yield _op("item", ((),), inner=True)
        yield _op("_local_scalar_dense", ((),), inner=True)


def _is_tested(tree: Tree, node: ast.expr) -> bool:
    parent = tree.parent(node)
    return isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is node


def _indexing(node: ast.Subscript, chance: random.Random) -> Iterator[OpCost]:
    if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return
    shape = chance.choice(_SHAPES[:4])
    items = index_items(node)
    masked = any(isinstance(item, ast.Compare) for item in items) or chance.random() < 0.2
    if masked:
        mask = shape[:1]
        if isinstance(node.ctx, ast.Store):
            yield _op("index_put_", (shape, mask, shape))
        else:
            yield _op("index", (shape, mask))
        yield _op("nonzero", (mask,), chance.choice((1, 4)), inner=True)
        return
    for item in items:
        yield _op("slice" if isinstance(item, ast.Slice) else "select", (shape,))
    if isinstance(node.ctx, ast.Store):
        yield _op(chance.choice(("copy_", "fill_")), (shape, shape))


def _called(node: ast.Call, shape: Shape, chance: random.Random) -> Iterator[OpCost]:
    name = node.func.attr if isinstance(node.func, ast.Attribute) else (dotted(node.func) or "")
    if name in _PLAIN:
        return
    if name in _READS:
        yield _op("item", ((),))
        yield _op("_local_scalar_dense", ((),), inner=True)
    elif name in _CASTS:
        yield _op("to", (shape,))
        yield _op("_to_copy", (shape,), inner=True)
        yield _op("copy_", (shape, shape), inner=True)
    elif name in _COPIES:
        yield _op(name, (shape,))
        yield _op("clone", (shape,), inner=True)
        yield _op("copy_", (shape, shape), inner=True)
    elif name in {"embedding", "Embedding"} or chance.random() < 0.1:
        yield _op("embedding", ((1000, 64), (4, 16)))
    elif (
        isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == "self"
    ):
        yield _op(chance.choice(_MODULES), (shape, (32, 32), (32,)), chance.choice((1, 1, 5)))
    elif name.isidentifier():
        yield _op(name, (shape, shape), chance.choice((1, 1, 5)))
