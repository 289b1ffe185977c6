"""Which tensors stay on the device that they are on, whatever a loop binds their names to."""

from __future__ import annotations

import ast

from forwardlens.rules.constants import is_number
from forwardlens.rules.evidence import Sites
from forwardlens.rules.operations import (
    ELEMENTWISE,
    MATRIX_PRODUCTS,
    NORMALISING,
    REDUCTIONS,
    VIEW_ATTRIBUTES,
    VIEWS,
    is_torch_function,
)
from forwardlens.source.dataflow import definition
from forwardlens.source.tree import Looping, dotted, walk

# What they give is on the device of their receiver or first argument, if that has dimensions.
_STAYING = (
    (ELEMENTWISE - {"to", "type", "type_as", "where"})
    | (VIEWS - {"chunk", "split", "unbind"})
    | (REDUCTIONS - {"max", "min"})
    | NORMALISING
    | MATRIX_PRODUCTS
    | {"reshape", "flatten", "view", "layer_norm", "dropout", "cumsum", "flip", "roll", "repeat"}
)
_DEPTH = 8


def is_fixed_device(sites: Sites, loop: Looping, node: ast.AST) -> bool:
    """Whether `node` is `x.device` and the same in every round, although the loop may bind `x` again.

    Each new value has to be computed from the one before by operators that leave it on its device, or raise. Modules
    may do anything.
    """
    if not isinstance(node, ast.Attribute) or node.attr != "device" or not isinstance(node.value, ast.Name):
        return False
    name = node.value.id
    stores = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)]
    sets = any(isinstance(n, ast.Attribute) and n.attr in {"data", "device"} and _is_set(n, name) for n in walk(loop))
    return not sets and all(_keeps(sites, loop, name, store) for store in stores)


def _is_set(node: ast.Attribute, name: str) -> bool:
    return not isinstance(node.ctx, ast.Load) and dotted(node.value) == name


def _keeps(sites: Sites, loop: Looping, name: str, store: ast.Name) -> bool:
    """Whether what `store` binds `name` to is on the device that it was on before."""
    statement = sites.tree.parent(store)
    if isinstance(statement, ast.AugAssign):
        return True
    return (
        isinstance(statement, ast.Assign) and store in statement.targets and _stays(sites, loop, name, statement.value)
    )


def _stays(sites: Sites, loop: Looping, name: str, node: ast.expr, depth: int = _DEPTH) -> bool:
    """Whether an expression in a round is a tensor on the device of `name`, or raises."""

    def stays(part: ast.expr) -> bool:
        return depth > 0 and _stays(sites, loop, name, part, depth - 1)

    if isinstance(node, ast.Name):
        made = None if node.id == name else _definition_inside(sites, loop, node.id)
        return node.id == name or (made is not None and stays(made))
    if isinstance(node, ast.IfExp):
        return stays(node.body) and stays(node.orelse)
    if not sites.outermost(node):
        return False
    if isinstance(node, ast.BinOp):
        return (stays(node.left) or stays(node.right)) and _has_no_loose_operand(sites, node)
    if isinstance(node, ast.UnaryOp):
        return stays(node.operand)
    if isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in VIEW_ATTRIBUTES):
        return stays(node.value)
    return isinstance(node, ast.Call) and _is_staying(sites, node) and stays(_first(sites, node))


def _definition_inside(sites: Sites, loop: Looping, name: str) -> ast.expr | None:
    """What the only assignment to a name gives it, if that stands in the loop."""
    function = sites.tree.function(loop)
    made = definition(sites.tree, function, name) if function is not None else None
    inside = made is not None and any(made is n for n in walk(loop))
    return made.value if made is not None and inside and _is_name(made.targets[0], name) else None


def _has_no_loose_operand(sites: Sites, node: ast.BinOp) -> bool:
    """Whether no operand is a tensor without dimensions, which takes part on any device."""
    if isinstance(node.op, ast.MatMult):
        return True
    shapes = sites.operands(node)
    number = any(is_number(sites.tree, side) for side in (node.left, node.right))
    return shapes is not None and (any(shapes) if number else all(shapes))


def _is_staying(sites: Sites, call: ast.Call) -> bool:
    named = isinstance(call.func, ast.Attribute) and call.func.attr in _STAYING
    cost = sites.cost(call)
    ranked = cost is not None and all(any(op.shapes[:1]) for op in cost.ops if op.outermost)
    return named and ranked and not any(k.arg in {"out", "device", None} for k in call.keywords)


def _first(sites: Sites, call: ast.Call) -> ast.expr:
    """What a method is called on, or what a function is given first."""
    assert isinstance(call.func, ast.Attribute)
    function = is_torch_function(sites.tree.module, call.func)
    return call.args[0] if function and call.args else call.func.value


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
