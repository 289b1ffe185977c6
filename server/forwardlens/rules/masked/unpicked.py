"""What is computed from picked elements one by one, for all elements instead."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from forwardlens.rules.constants import is_number
from forwardlens.rules.evidence import Sites
from forwardlens.rules.masked.picked import Picked, with_dimensions
from forwardlens.rules.operations import call_operands, called_name, is_repeatable, torch_name
from forwardlens.source.rewrite import splice
from forwardlens.source.tree import integer, walk

_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
# Work on each element by itself whose gradient is finite for every element, also for an infinite one.
_STRAIGHT = frozenset("abs neg relu clamp clip clamp_min clamp_max".split())
# The same with a gradient that an infinite element makes infinite or undefined.
_BOUNDED = frozenset(
    "add sub mul multiply square pow tanh sigmoid sin cos erf softplus silu gelu elu maximum minimum".split()
)
# The same where finite elements may do so too.
_UNBOUNDED = frozenset("div exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal tan atan2".split())


@dataclass(frozen=True)
class Whole:
    """The text of a value for all elements instead of the picked ones, and what keeps a fix from using it."""

    text: str
    obstacle: str = ""


def whole_value(
    sites: Sites, node: ast.Assign | ast.AugAssign, target: ast.Subscript, value: ast.expr, picked: Picked
) -> Whole | None:
    """What is written, for all elements instead of the picked ones; None if it does not say so element by element."""
    whole = _unpicked(sites, value, target, picked)
    if isinstance(node, ast.Assign):
        if whole is None and picked.written is not None and 0 < len(picked.written) <= picked.trailing:
            # One row for all: it has no dimension of the picked elements.
            same = is_repeatable(value) and not _reads_mask(sites, value, target)
            whole = Whole(sites.tree.text(value)) if same else None
        return None if isinstance(value, ast.Constant) else whole
    sign = _SIGNS.get(type(node.op))
    constant = isinstance(value, ast.Constant)
    if whole is None or sign is None or not (constant or sign in "+-"):
        return None
    inner = whole.text if isinstance(value, (ast.Constant, ast.Subscript)) else f"({whole.text})"
    return Whole(f"{sites.tree.text(target.value)} {sign} {inner}", whole.obstacle)


def _reads_mask(sites: Sites, value: ast.expr, target: ast.Subscript) -> bool:
    mask = sites.tree.text(target.slice)
    return any(isinstance(n, ast.Subscript) and sites.tree.text(n.slice) == mask for n in walk(value))


def _unpicked(sites: Sites, value: ast.expr, target: ast.Subscript, picked: Picked) -> Whole | None:
    """`z * 2` for `z[mask] * 2`, and so for all that is computed element by element; None for anything else.

    Where the gradient of a left-out element may be infinite, which the zero from `torch.where` does not undo, the
    element is replaced before anything is computed with it.
    """
    number = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
    if isinstance(number, ast.Constant) and type(number.value) in (int, float):
        return Whole(sites.tree.text(value))
    torch = torch_name(sites.tree.module)
    picks = [n for n in walk(value) if isinstance(n, ast.Subscript) and _is_pick(sites, n, target, picked)]
    if torch is None or not _is_elementwise(sites, value, picks):
        return None
    if _is_straight(sites, value, picks):
        return Whole(splice(sites.source, value, {n: sites.tree.atom(n.value) for n in picks}))
    mask = with_dimensions(sites, picked.mask, picked.trailing)
    parts: dict[ast.expr, str] = {}
    for pick in picks:
        one = f"{sites.tree.atom(pick.value)}.new_ones(())" if _may_be_boolean(sites, value, picks) else "1"
        parts[pick] = f"{torch}.where({mask}, {sites.tree.text(pick.value)}, {one})"
    unclear = next(_unclear(sites, value, picks), None) if _is_unbounded(sites, value, picks) else None
    obstacle = (
        f"`{sites.tree.text(unclear)}` may be a tensor, whose gradient would take in what the mask leaves out"
        if unclear is not None
        else ""
    )
    return Whole(splice(sites.source, value, parts), obstacle)


def _is_pick(sites: Sites, node: ast.Subscript, target: ast.Subscript, picked: Picked) -> bool:
    """Whether `node` is `z[mask]` for the mask of `target`."""
    if not isinstance(node.ctx, ast.Load) or sites.tree.text(node.slice) != sites.tree.text(target.slice):
        return False
    other = Picked(sites, node, "aten::index")
    fits = other.base == picked.base and (other.fits or sites.tree.text(node) == sites.tree.text(target))
    return fits and is_repeatable(node.value)


def _operands(sites: Sites, node: ast.expr) -> list[ast.expr] | None:
    """What an operator that works element by element is given; None for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [node.operand]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
        return [node.left, node.right]
    if not isinstance(node, ast.Call) or called_name(sites.tree.module, node) not in _STRAIGHT | _BOUNDED | _UNBOUNDED:
        return None
    if any(k.arg in {"out", "inplace", None} for k in node.keywords):
        return None
    return [*call_operands(sites.tree.module, node), *(k.value for k in node.keywords)]


def _is_elementwise(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether `node` computes with picked elements one by one, and with single numbers."""
    if node in picks:
        return True
    operands = _operands(sites, node)
    if operands is None:
        return False
    moving = [o for o in operands if _is_elementwise(sites, o, picks)]
    still = [o for o in operands if o not in moving]
    cost = sites.cost(node)
    ran = [op for op in cost.ops if op.outermost and op.shapes] if cost is not None else []
    # Whatever else took part had no dimensions in the run.
    single = bool(ran) and all(sum(shape != () for shape in op.shapes) == len(moving) for op in ran)
    return bool(moving) and single and all(is_repeatable(o) and not _has_pick(o, picks) for o in still)


def _has_pick(node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    return any(n in picks for n in walk(node))


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _is_straight(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether the gradient is finite for every element, also an infinite one."""
    operands = _operands(sites, node) if node not in picks else None
    if operands is None:
        return True
    constants = [_is_literal(o) for o in operands]
    if isinstance(node, ast.Call):
        known = called_name(sites.tree.module, node) in _STRAIGHT and all(constants[1:])
    elif isinstance(node, ast.BinOp):
        factor = isinstance(node.op, ast.Mult) and any(constants)
        known = factor or isinstance(node.op, (ast.Add, ast.Sub)) or (isinstance(node.op, ast.Div) and constants[1])
    else:
        known = True
    return known and all(_is_straight(sites, o, picks) for o in operands)


def _is_unbounded(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether a finite element may give something infinite, as with `log` and in a denominator."""
    operands = _operands(sites, node) if node not in picks else None
    if operands is None:
        return False
    called = called_name(sites.tree.module, node) if isinstance(node, ast.Call) else None
    power = called == "pow" or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))
    divided = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not _is_literal(operands[1])
    fractional = power and not all((integer(o) or 0) > 0 for o in operands[1:])
    return called in _UNBOUNDED or divided or fractional or any(_is_unbounded(sites, o, picks) for o in operands)


def _unclear(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The single values in `node` that may be tensors: a gradient for them adds up all elements."""
    if node in picks:
        return
    operands = _operands(sites, node)
    if operands is None:
        if not is_number(sites.tree, node):
            yield node
        return
    for operand in operands:
        yield from _unclear(sites, operand, picks)


def _may_be_boolean(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether a product is of picked elements alone: it is boolean if they are, and must not become another dtype."""
    multiplied = [n for n in walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
    called = [
        n for n in walk(node) if isinstance(n, ast.Call) and called_name(sites.tree.module, n) in {"mul", "multiply"}
    ]
    return bool(called) or any(_has_pick(n.left, picks) and _has_pick(n.right, picks) for n in multiplied)
