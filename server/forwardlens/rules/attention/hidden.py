"""Values that hide a score: so low that no weight is left."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from forwardlens.rules.constants import attribute_value
from forwardlens.rules.operations import torch_function
from forwardlens.source.dataflow import definition
from forwardlens.source.tree import Tree, dotted

# A score at or below this leaves no weight behind: exp of it is zero in every dtype.
_LOW, _LOWEST = -1e4, -1e9
_DEPTH = 6


@dataclass(frozen=True)
class Hiding:
    """`value` names the number, and `asks_dtype` says that it is the least of some tensor's dtype.

    What is `lowest` still hides a score when it is divided by the root of a size.
    """

    value: ast.expr
    infinite: bool = False
    lowest: bool = True
    asks_dtype: bool = False


def hides(tree: Tree, node: ast.expr, depth: int = 0) -> Hiding | None:
    """What hides a score in `node`, if it surely does."""
    if depth > _DEPTH:
        return None
    number = _literal(tree, node)
    if number is not None:
        return Hiding(node, number == float("-inf"), number <= _LOWEST) if number <= _LOW else None
    dtype = _least_of(tree, node)
    if dtype is not None:
        return Hiding(node, asks_dtype=isinstance(dtype, ast.Attribute) and dtype.attr == "dtype")
    inner = _inside(tree, node)
    return None if inner is None else hides(tree, inner, depth + 1)


def _literal(tree: Tree, node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        number = _literal(tree, node.operand)
        return None if number is None else -number
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return float(node.value)  # pyright: ignore[reportArgumentType]
    if dotted(node) in {"math.inf", "torch.inf", "np.inf", "numpy.inf"}:
        return float("inf")
    if isinstance(node, ast.Call) and dotted(node.func) == "float" and len(node.args) == 1:
        text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        try:
            return float(text) if isinstance(text, (str, int, float)) else _literal(tree, node.args[0])
        except ValueError:
            return None
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Pow, ast.Div)):
        base, power = _literal(tree, node.left), _literal(tree, node.right)
        if isinstance(node.op, ast.Div):
            return base / power if base is not None and power else None
        return float(base**power) if base is not None and power is not None and base > 0 and abs(power) < 39 else None
    return None


def _least_of(tree: Tree, node: ast.expr) -> ast.expr | None:
    """The dtype in `torch.finfo(dtype).min` and in `-torch.finfo(dtype).max`."""
    wanted = "min"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, wanted = node.operand, "max"
    found = node.value if isinstance(node, ast.Attribute) and node.attr == wanted else None
    if isinstance(found, ast.Call) and torch_function(tree.module, found.func) == "finfo" and len(found.args) == 1:
        return found.args[0]
    return None


def is_root(tree: Tree, node: ast.expr, depth: int = 0) -> bool:
    """Whether a number is the square root of something, or one over it."""
    if depth > _DEPTH:
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _literal(tree, node.right) in {0.5, -0.5}
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _literal(tree, node.left) == 1 and is_root(tree, node.right, depth + 1)
    if isinstance(node, ast.Call):
        return (dotted(node.func) or "").rpartition(".")[2] == "sqrt"
    inner = _inside(tree, node)
    return inner is not None and is_root(tree, inner, depth + 1)


def _inside(tree: Tree, node: ast.expr) -> ast.expr | None:
    """What a name or an attribute was set to once, or the number that a tensor is made of."""
    if isinstance(node, ast.Name):
        function = tree.function(node)
        statement = definition(tree, function, node.id) if function is not None else None
        plain = statement is not None and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name)
        return statement.value if statement is not None and plain else None
    if isinstance(node, ast.Attribute) and dotted(node) == f"self.{node.attr}":
        return attribute_value(tree, node, node.attr)
    if not isinstance(node, ast.Call) or not node.args or not isinstance(node.func, ast.Attribute):
        return None
    name = torch_function(tree.module, node.func)
    if name in {"tensor", "as_tensor"} or (name is None and node.func.attr == "new_tensor"):
        return node.args[0]
    if name in {"full", "full_like"} and len(node.args) == 2:
        return node.args[1]
    return node.func.value if name is None and node.func.attr in {"to", "type_as"} else None
