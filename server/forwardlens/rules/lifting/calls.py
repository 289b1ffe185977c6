"""Calls of functions and methods of torch and of layers: which ones work for all rounds at once."""

from __future__ import annotations

import ast
from dataclasses import replace

from forwardlens.rules.batched import (
    Batched,
    Fixed,
    RefusedError,
    Value,
    arranged,
    live_loops,
    reduced_over_last,
    seen_in,
    spread,
)
from forwardlens.rules.callers import repeated_function
from forwardlens.rules.lifting.broadcasting import elementwise
from forwardlens.rules.lifting.counters import counter_as_tensor, is_position
from forwardlens.rules.lifting.dimensions import along, attention, einsum, loss, matrix_product, product_and_sum
from forwardlens.rules.lifting.folding import folded
from forwardlens.rules.lifting.indexing import gather_along, selected
from forwardlens.rules.lifting.inlining import helper
from forwardlens.rules.lifting.joins import join, list_of_rounds
from forwardlens.rules.lifting.operators import compared, same_in_all
from forwardlens.rules.lifting.samples import FUNCTIONS_OF_SAMPLES
from forwardlens.rules.lifting.scope import PURE_BUILTINS, Scope
from forwardlens.rules.lifting.views import KNOWN_VIEWS, flat, flattens, view
from forwardlens.rules.operations import ELEMENTWISE, ELEMENTWISE_MODULES, JOINS, LOSSES, POSITIONWISE_MODULES
from forwardlens.rules.reducing import ALONG, REDUCING
from forwardlens.source.tree import argument, dotted, integer

_BOOLEAN = frozenset(
    "gt ge lt le eq ne greater less logical_and logical_or logical_xor logical_not isnan isinf isfinite bool".split()
)
# Methods that take a slice, and how many operands they have.
_SELECTING = {"select": 3, "narrow": 4}
# Methods that compare as the operators do, with two operands.
_COMPARING = frozenset("eq ne lt le gt ge".split())
# Functions that make a tensor of numbers alone.
_MADE = frozenset({"arange", "zeros", "ones"})
_LIKE = {"full_like": None, "zeros_like": "0", "ones_like": "1"}


def call(scope: Scope, node: ast.Call, part: str = "") -> Value:
    """A call of a function or method of torch, of a layer, or of a function of the file.

    `part` is the text behind it that takes one of its results.
    """
    name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
    method = isinstance(node.func, ast.Attribute) and scope.varies(node.func.value)
    library = scope.is_library(node.func)
    if isinstance(node.func, ast.Attribute) and not method and not library and _is_tensor_method(scope, node):
        method = True
    if name == "sum" and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        rows = list_of_rounds(scope, node.args[0])
        if rows is not None:
            return reduced_over_last(rows[0], "sum")
    if (dotted(node.func) or "").partition(".")[0] in PURE_BUILTINS and not node.keywords:
        values = {a: scope.lift(a) for a in node.args}
        if all(isinstance(v, Fixed) for v in values.values()):
            return same_in_all(scope, node, values)
    if name is None or (not method and not library):
        function = repeated_function(scope.sites, node)
        return _module(scope, node) if function is None else helper(scope, node, function)
    made = _made_of_sizes(scope, name, node) if library and name in _MADE else None
    if made is not None:
        return made
    if name in LOSSES and library:
        return loss(scope, name, node)
    if any(scope.varies(keyword.value) for keyword in node.keywords):
        raise RefusedError(f"`{scope.text(node)}` has a keyword that changes from round to round")
    for keyword in node.keywords:
        scope.require_pure(keyword.value)
        if keyword.arg in {"out", "inplace"}:
            raise RefusedError(f"`{scope.text(node)}` writes into its argument")
    receiver = [node.func.value] if method and isinstance(node.func, ast.Attribute) else []
    operands = [*receiver, *node.args]
    if any(isinstance(o, ast.Starred) for o in operands):
        raise RefusedError(f"`{scope.text(node)}` has a starred argument")
    if name in _LIKE and library:
        return _like(scope, node, name)
    if name in {"tensor", "full", "as_tensor"} and library:
        return counter_as_tensor(scope, name, node)
    if name in {"embedding"} | FUNCTIONS_OF_SAMPLES and library:
        return _module(scope, node)
    if name == "einsum" and library:
        return einsum(scope, node)
    if name in JOINS and library:
        return join(scope, node, name)
    if name in {"matmul", "mm", "bmm", "mv", "dot"} and len(operands) == 2 and not node.keywords:
        return matrix_product(scope, node, (operands[0], operands[1]))
    if name == "addmm":
        return product_and_sum(scope, node, operands)
    if name == "scaled_dot_product_attention" and library:
        return attention(scope, node)
    if name in {"flatten", "reshape", "view"} and operands and flattens(name, operands):
        return flat(scope, node, operands[0])
    if name in KNOWN_VIEWS and operands:
        return view(scope, name, node, operands)
    if _SELECTING.get(name) == len(operands) and not node.keywords:
        return selected(scope, name, node, operands)
    if (name in REDUCING or name in ALONG) and operands:
        return along(scope, name, node, operands, part)
    if name in {"gather", "index_select"} and len(operands) == 3 and not node.keywords:
        return gather_along(scope, name, node, operands)
    if name in _COMPARING and len(operands) == 2 and any(is_position(scope, o) for o in operands):
        return compared(scope, node, (operands[0], operands[1]), _argument_ranks(scope, node, name, 1))
    flags = any(isinstance(o, ast.Constant) and isinstance(o.value, bool) for o in node.args)
    if name in ELEMENTWISE and not flags and (name != "where" or len(operands) == 3):
        return _elementwise_call(scope, node, name, operands)
    raise RefusedError(f"`{name}` is not known to work position by position")


def _is_tensor_method(scope: Scope, node: ast.Call) -> bool:
    """A known method of a fixed receiver, as in `photo.lerp(rows[t], 0.5)`; `self.relu(x)` is a module."""
    assert isinstance(node.func, ast.Attribute)
    name = node.func.attr
    known = name in ELEMENTWISE or (name in _SELECTING and scope.sites.op(node, f"aten::{name}") is not None)
    return known and dotted(node.func.value) != "self"


def _made_of_sizes(scope: Scope, name: str, node: ast.Call) -> Fixed | None:
    """`torch.arange(row.size(0), device=row.device)`: the same in every round if all that it is made of is."""
    given: list[ast.expr] = [*node.args, *(k.value for k in node.keywords)]
    if any(is_position(scope, g) for g in given):
        return None
    values = {g: scope.lift(g) for g in given}
    if not all(isinstance(v, Fixed) and (g not in node.args or v.rank == 0) for g, v in values.items()):
        return None
    text = scope.spliced(node, {g: v.text for g, v in values.items()})
    return Fixed(text, 1 if name == "arange" else len(node.args), atom=True)


def _elementwise_call(scope: Scope, node: ast.Call, name: str, operands: list[ast.expr]) -> Value:
    ranks = _argument_ranks(scope, node, name, len(operands))
    converts = name in {"to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "bool"}
    if converts or name in {"contiguous", "clone", "detach"}:
        if any(scope.varies(o) for o in operands[1:]):
            raise RefusedError(f"`{scope.text(node)}` converts to what changes from round to round")
        value = scope.lift(operands[0])
        if isinstance(value, Batched) and scope.may_write_to(value):
            raise RefusedError(f"`{scope.text(node)}` may or may not be a copy of what the loop writes to")
        result = elementwise(scope, node, operands[:1], [value], [None])
    else:
        _require_scalar_keywords(scope, node, name, len(operands))
        result = elementwise(scope, node, operands, [scope.lift(o) for o in operands], ranks)
    return replace(result, boolean=name in _BOOLEAN)


def _argument_ranks(scope: Scope, node: ast.Call, name: str, count: int) -> list[int | None]:
    op = scope.sites.op(node, f"aten::{name}")
    if op is None or len(op.shapes) < count:
        return [None] * count
    return [len(s) for s in op.shapes[:count]]


def _require_scalar_keywords(scope: Scope, node: ast.Call, name: str, count: int) -> None:
    """A tensor given by keyword would have to be broadcast too."""
    if all(isinstance(k.value, ast.Constant) or integer(k.value) is not None for k in node.keywords):
        return
    op = scope.sites.op(node, f"aten::{name}")
    if op is None or any(op.shapes[count:]):
        raise RefusedError(f"`{scope.text(node)}` may have a tensor among its keywords")


def _like(scope: Scope, node: ast.Call, name: str) -> Value:
    if not node.args:
        raise RefusedError(f"`{scope.text(node)}` does not have its tensor as its first argument")
    value = scope.lift(node.args[0])
    if isinstance(value, Fixed):
        raise RefusedError(f"`{scope.text(node)}` does not vary")
    fill = _LIKE[name]
    if fill is None:
        given = argument(node, 1, "fill_value")
        if given is None or scope.varies(given):
            raise RefusedError(f"`{scope.text(node)}` fills with another value in every round")
        scope.require_pure(given)
        fill = scope.text(given)
    # A dtype of its own would be lost when only the scalar is kept.
    kept = fill if not any(k.arg != "fill_value" for k in node.keywords) else None
    text = scope.spliced(node, {node.args[0]: value.text})
    return replace(value, text=text, atom=True, fill=kept, boolean=False, view=False, cut=None)


def _module(scope: Scope, node: ast.Call) -> Value:
    """`self.word(ids)`, `F.embedding(ids, w)`, `self.mix(row)`: known by the operators that the call ran."""
    if scope.varies(node.func):
        raise RefusedError(f"`{scope.text(node.func)}` is another function in every round")
    if not node.args:
        raise RefusedError(f"`{scope.text(node)}` does not have its tensor as its first argument")
    if any(scope.varies(o) for o in [*node.args[1:], *(k.value for k in node.keywords)]):
        raise RefusedError(f"`{scope.text(node)}` has several arguments that change from round to round")
    if any(k.arg in {"max_norm", "scale_grad_by_freq", "inplace"} for k in node.keywords):
        raise RefusedError(f"`{scope.text(node)}` is not the same for all positions at once")
    value = scope.lift(node.args[0])
    if isinstance(value, Fixed):
        raise RefusedError(f"the run does not tell what `{scope.text(node.func)}` does")
    try:
        return _positionwise(scope, node, value)
    except RefusedError as refused:
        try:
            return folded(scope, node, node.args[0], value)
        except RefusedError:
            raise refused from None


def _positionwise(scope: Scope, node: ast.Call, value: Batched) -> Value:
    ran = scope.sites.outermost(node)
    if not ran:
        raise RefusedError(f"the run does not tell what `{scope.text(node.func)}` does")
    lookup = "aten::embedding" in ran
    if not ran - {"aten::embedding"} <= POSITIONWISE_MODULES:
        raise RefusedError(f"`{scope.text(node.func)}` is not known to work position by position")
    norm = scope.sites.op(node, "aten::layer_norm")
    if norm is not None and len(norm.shapes[2] if len(norm.shapes) > 2 else ()) != 1:
        raise RefusedError(f"`{scope.text(node.func)}` may normalise several dimensions")
    # A look-up or an activation takes its positions in any arrangement, a layer all but the last one.
    extra = (value.rank,) if lookup else ()
    if not ran <= ELEMENTWISE_MODULES | {"aten::embedding"}:
        value = _last_dimension_kept(scope, value)
    text = scope.spliced(node, {node.args[0]: value.text})
    return Batched(text, value.rank + len(extra), value.loops, (*value.slots, *extra))


def _last_dimension_kept(scope: Scope, value: Batched) -> Batched:
    """A layer works on the last dimension: it must stay a slot of the round's value."""
    if not value.slots:
        raise RefusedError("a layer needs a dimension to work on")
    if value.slots[-1] == value.rank - 1:
        return value
    live = live_loops([value])
    value = seen_in(value, live)
    value = arranged(value, value.natural if value.natural >= 1 else value.round_rank)
    return spread(value, live, scope.depth)
