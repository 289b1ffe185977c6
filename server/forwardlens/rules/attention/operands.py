"""Queries, keys and values in the order that the fused operator takes."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from forwardlens.rules.attention.chain import Chain
from forwardlens.rules.attention.errors import NoCounterpartError
from forwardlens.rules.attention.products import Product, arranged, moved, untransposed
from forwardlens.rules.evidence import Sites
from forwardlens.source.dataflow import bindings, definition
from forwardlens.source.tree import Tree

_CASTS = frozenset({"float", "double", "half", "bfloat16", "to", "type", "type_as"})


@dataclass(frozen=True)
class Operands:
    """The texts of the three operands, and the method calls that bring the result into the order that it had.

    `nodes` are the expressions that hold them, `query` that of the queries; with `depth_last` its last dimension is the
    one summed over.
    """

    nodes: tuple[ast.expr, ast.expr, ast.expr]
    parts: tuple[str, str, str]
    back: str
    query: ast.expr
    depth_last: bool


def sums_over_keys(chain: Chain, values: Product, *, weights_left: bool) -> bool:
    """Whether the product with the values sums over the dimension that the softmax ran over."""
    letters = _letters(chain, values, weights_left=weights_left)
    if letters is None:
        return weights_left
    weights, value, result = letters
    return weights[-1] in value and weights[-1] not in result and weights[-2] in result and weights[-2] not in value


def operands_of(chain: Chain, values: Product, *, weights_left: bool) -> Operands:
    """Raises `NoCounterpartError`."""
    sites, product = chain.sites, chain.product
    letters = _letters(chain, values, weights_left=weights_left)
    first = None if product is None else product.ranked(len(chain.shape))
    if product is None or first is None or letters is None:
        raise NoCounterpartError("its operands have other ranks or batches than the fused operator takes")
    one, other, scores = first
    query, key = product.left, product.right
    if scores[-2] not in one:
        one, other, query, key = other, one, key, query
    depth = _left_over(one, scores[:-1])
    if _left_over(other, f"{scores[:-2]}{scores[-1]}") != depth:
        raise NoCounterpartError("its products are of another order")
    weights, value, result = letters
    width = _left_over(value, f"{weights[:-2]}{weights[-1]}")
    if _left_over(result, weights[:-1]) != width:
        raise NoCounterpartError("its products are of another order")
    held = values.right if weights_left else values.left
    _require_one_dtype(sites.tree, query, key, held)
    placed = [_Placed(query, one, depth), _Placed(key, other, depth), _Placed(held, value, width)]
    # The kernels want a last dimension without gaps. Keys mostly come transposed, and then have none.
    spread = [_is_spread(chain, operand) for operand in placed]
    copies = spread if spread[0] or spread[2] else [False] * 3
    wanted = (f"{scores[:-1]}{depth}", f"{scores[:-2]}{scores[-1]}{depth}", f"{weights[:-2]}{weights[-1]}{width}")
    texts: list[str] = []
    for operand, order, copied in zip(placed, wanted, copies, strict=True):
        shared = "".join(letter for letter in order if letter not in operand.letters)
        text = arranged(sites, operand.node, operand.letters, "".join(c for c in order if c not in shared))
        # With three dimensions each gets another one, and so stands in front of a dot.
        if len(chain.shape) == 3 or copied or shared:
            text = _closed(text, operand.node, sites.tree)
        text += ".contiguous()" if copied and not shared else ""
        texts.append(text if not shared else f"{text}{_shared(sites, placed, order, shared)}")
    parts = (texts[0], texts[1], texts[2])
    return Operands((query, key, held), parts, moved(f"{weights[:-1]}{width}", result), query, one[-1] == depth)


@dataclass(frozen=True)
class _Placed:
    """An operand with a letter for each of its dimensions, and the letter of the one that nothing else shares."""

    node: ast.expr
    letters: str
    depth: str


def _shared(sites: Sites, placed: Sequence[_Placed], order: str, shared: str) -> str:
    """What gives an operand the dimension that it has not, since heads or a batch share it, without a copy."""
    given = next((p for p in placed if shared in p.letters), None)
    if len(shared) != 1 or given is None:
        raise NoCounterpartError("an operand is shared between heads")
    at = order.index(shared)
    size = f"{sites.tree.atom(given.node)}.size({given.letters.index(shared)})"
    sizes = ", ".join(size if n == at else "-1" for n in range(len(order)))
    return f".unsqueeze({at}).expand({sizes})" if at else f".expand({sizes})"


def _is_spread(chain: Chain, operand: _Placed) -> bool:
    """Whether the last dimension of an operand probably has gaps between its elements."""
    sites, node = chain.sites, operand.node
    function = sites.tree.function(node)
    statement = definition(sites.tree, function, node.id) if isinstance(node, ast.Name) and function else None
    value = node if statement is None else statement.value
    return untransposed(sites, value, operand.letters)[1][-1] != operand.depth


def _closed(part: str, node: ast.expr, tree: Tree) -> str:
    bare = part == tree.text(node) and not isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"({part})" if bare else part


def _letters(chain: Chain, values: Product, *, weights_left: bool) -> tuple[str, str, str] | None:
    """The letters of the weights, in the order that the softmax had them in, of the values and of the result."""
    letters = values.ranked(len(chain.shape))
    if letters is None:
        return None
    weights, value = letters[:2] if weights_left else (letters[1], letters[0])
    if len(weights) != len(chain.shape):
        return None
    for turn in chain.turns:
        weights = untransposed(chain.sites, turn, weights)[1]
    return weights, value, letters[2]


def _left_over(letters: str, known: str) -> str:
    """The one letter beside the known ones, of which only those of a batch or of heads may be missing."""
    over = set(letters) - set(known)
    if len(over) != 1 or not set(known) - set(letters) <= set(known[:-1]):
        raise NoCounterpartError("its products are of another order")
    return over.pop()


def _require_one_dtype(tree: Tree, *nodes: ast.expr) -> None:
    """A cast of one operand says that the others may come in another dtype, which the fused operator does not take."""
    if len({_cast(tree, node) for node in nodes}) > 1:
        raise NoCounterpartError("its operands may have different dtypes")


def _cast(tree: Tree, node: ast.expr) -> str | None:
    function = tree.function(node)
    if isinstance(node, ast.Name) and function is not None:
        stores = (tree.parent(store) for store in bindings(function, node.id))
        values = [store.value for store in stores if isinstance(store, ast.Assign)]
        casts = (_cast(tree, value) for value in values if not isinstance(value, ast.Name))
        return next((cast for cast in casts if cast is not None), None)
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in _CASTS:
            return tree.text(node)[len(tree.text(node.func.value)) :]
        node = node.func.value
    return None
