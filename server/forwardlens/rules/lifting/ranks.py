"""How many dimensions an expression has, from the operators that the run recorded at its uses."""

from __future__ import annotations

import ast

from forwardlens.model import OpCost
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import arguments_of, repeated_function
from forwardlens.rules.heads import sliced
from forwardlens.rules.lifting.scope import Scope
from forwardlens.rules.operations import ELEMENTWISE, POSITIONWISE_MODULES, PRODUCT_OPERATORS
from forwardlens.rules.reducing import ALONG, REDUCING
from forwardlens.source.dataflow import assignment_read
from forwardlens.source.tree import dotted, walk


def rank_of_cut(scope: Scope, base: ast.expr) -> int:
    """The rank of a tensor that `split` or `chunk` cuts, from the operator that did it."""
    parent = scope.sites.tree.parent(base)
    method = scope.sites.tree.parent(parent) if isinstance(parent, (ast.Attribute, ast.keyword)) else parent
    op = scope.sites.op(method, "aten::split", "aten::chunk") if method is not None else None
    if op is None or not op.shapes or not op.shapes[0]:
        raise RefusedError(f"the run does not tell how many dimensions `{scope.text(base)}` has")
    return len(op.shapes[0])


def rank_of_made(scope: Scope, made: ast.expr) -> int:
    """The rank of the tensors that one call takes slices of in turn, if all of them have the same."""
    op = scope.sites.op(made, "aten::split", "aten::chunk", "aten::unbind")
    ranks = {len(shapes[0]) for shapes in op.variants if shapes} if op is not None else set[int]()
    if op is None or len(ranks) != 1 or op.shape_variants != len(op.variants):
        raise RefusedError(f"the run does not tell how many dimensions `{scope.text(made)}` takes slices of")
    return ranks.pop()


def iterated_rank(scope: Scope, base: ast.expr, name: str | None = None) -> int:
    """The rank of a tensor that the loop takes slices of, from the `unbind` that did it."""
    parent = scope.sites.tree.parent(base)
    method = scope.sites.tree.parent(parent) if isinstance(parent, (ast.Attribute, ast.keyword)) else None
    for node in (base, parent, method):
        cost = scope.sites.cost(node) if node is not None else None
        op = next((o for o in cost.ops if o.outermost and o.name == "aten::unbind"), None) if cost else None
        if cost is None or op is None or not op.shapes or not op.shapes[0]:
            continue
        if not isinstance(node, ast.Call) or dotted(node.func) != "zip":
            return len(op.shapes[0])
        # Each star is a visit of the interpreter's to the call, too.
        visits = cost.calls // (1 + sum(isinstance(arg, ast.Starred) for arg in node.args))
        rank = _zipped_rank(scope, node, op, op.calls // max(visits, 1), base)
        if rank is not None:
            return rank
        if op.calls >= 2 * cost.calls and name is not None:
            return rank_in_use(scope, name) + 1
    raise RefusedError(f"`{scope.text(base)}` is not known to be a tensor")


def _zipped_rank(scope: Scope, call: ast.Call, op: OpCost, tensors: int, base: ast.expr) -> int | None:
    """The rank of one of the arguments of a `zip` in which so many of them are tensors that it takes slices of."""
    ranks = [len(shapes[0]) for shapes in op.variants or (op.shapes,) if shapes]
    if tensors > 1 and len({*ranks}) == 1 and op.shape_variants == len(ranks):
        return ranks[0]
    # Each tensor in turn is asked for its slices.
    plain = (arg for arg in call.args if not isinstance(arg, ast.Starred))
    asked = [arg for arg in plain if sliced(arg).base is arg and not _is_list_of_slices(scope, arg)]
    each = op.shape_variants == len(ranks) == len(asked) == tensors and base in asked
    return ranks[asked.index(base)] if each else None


def _is_list_of_slices(scope: Scope, node: ast.expr) -> bool:
    """Whether a name is that of `x.unbind(1)` or the like."""
    sites, function = scope.sites, scope.loops[0].function
    made = assignment_read(sites.tree, function, node) if isinstance(node, ast.Name) else None
    return made is not None and sliced(made.value).base is not made.value


def rank_in_use(scope: Scope, name: str) -> int:
    """The rank of a loop variable where it is an operand of an operator, in the loop or in a helper."""
    rank = _rank_in(scope, scope.loops[0].node, name)
    if rank is None:
        raise RefusedError(f"the run does not tell how many dimensions `{name}` has")
    return rank


def _rank_in(scope: Scope, where: ast.AST, name: str) -> int | None:
    for node in walk(where):
        left = node.left if isinstance(node, (ast.BinOp, ast.Compare)) else None
        shapes = scope.sites.operands(node) if isinstance(left, ast.Name) and left.id == name else None
        if shapes is not None:
            return len(shapes[0])
        right = node.comparators[0] if isinstance(node, ast.Compare) else None
        right = node.right if isinstance(node, ast.BinOp) else right
        tensor = isinstance(left, ast.Name) and any(left.id in loop.elements for loop in scope.loops)
        # A number on the left would have made the tensor on the right the first operand.
        tensor = tensor or (left is not None and bool(scope.sites.outermost(left) - {"aten::item"}))
        if isinstance(right, ast.Name) and right.id == name and tensor:
            shapes = scope.sites.operands(node)
            if shapes is not None:
                return len(shapes[1])
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            product = scope.sites.op(node, *PRODUCT_OPERATORS)
            sides = [dotted(node.left), dotted(node.right)]
            if product is not None and name in sides:
                return len(product.shapes[sides.index(name)])
        rank = _rank_of_argument(scope, node, name) if isinstance(node, ast.Call) else None
        if rank is not None:
            return rank
        if isinstance(node, ast.Slice) and name in {dotted(b) for b in (node.lower, node.upper) if b is not None}:
            return 0
        if isinstance(node, ast.Subscript) and dotted(node.value) == name:
            rank = scope.sites.base_rank(node)
            if rank is not None:
                return rank
        if isinstance(node, ast.Subscript) and dotted(node.slice) == name and scope.sites.op(node, "aten::index"):
            # `index` gives its positions the shape of the result before it reads them.
            positions = scope.sites.inner_op(node, "aten::reshape")
            if positions is not None and positions.shapes:
                return len(positions.shapes[0])
    for call in (n for n in walk(where) if isinstance(n, ast.Call)):
        function = repeated_function(scope.sites, call)
        given = None if function is None else arguments_of(function, call)
        for parameter, value in (given or {}).items():
            rank = _rank_in(scope, function, parameter) if function is not None and dotted(value) == name else None
            if rank is not None:
                return rank
    return None


def _rank_of_argument(scope: Scope, call: ast.Call, name: str) -> int | None:
    """The rank of a name that a call's only operator takes first, a look-up second."""
    method = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == name
    cost = scope.sites.cost(call)
    ops = [o for o in cost.ops if o.outermost] if cost is not None else []
    if len(ops) != 1 or not (method or (call.args and dotted(call.args[0]) == name)):
        return None
    at = 1 if ops[0].name == "aten::embedding" else 0
    known = ops[0].name.removeprefix("aten::") in ELEMENTWISE | REDUCING | ALONG or ops[0].name in POSITIONWISE_MODULES
    # A method's operator has its receiver first.
    return len(ops[0].shapes[at]) if (at or known or method) and len(ops[0].shapes) > at else None
