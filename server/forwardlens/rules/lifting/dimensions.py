"""Calls that work along dimensions of a round's value: reductions, softmax, products, attention, losses."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from string import ascii_lowercase

from forwardlens.rules.batched import (
    Batched,
    Fixed,
    RefusedError,
    Value,
    arranged,
    live_loops,
    seen_in,
    spread,
    wrapped,
)
from forwardlens.rules.lifting.broadcasting import agree, in_place_of, together
from forwardlens.rules.lifting.scope import Scope
from forwardlens.rules.loops import surely_runs
from forwardlens.rules.operations import PRODUCT_OPERATORS
from forwardlens.rules.reducing import (
    ALONG,
    NEEDS_DIM,
    PAIRED,
    between,
    placed,
    plain,
    product,
    reduced,
    round_dims,
    standing,
)
from forwardlens.source.tree import integer, keyword_name

_NEEDS_ELEMENTS = frozenset({"amax", "amin", "max", "min", "argmax", "argmin", "median"})


def along(scope: Scope, name: str, node: ast.Call, operands: Sequence[ast.expr], part: str) -> Value:
    """`row.sum(-1)`, `torch.softmax(row, dim=0)`, `row.mean()`.

    `part` is the text behind the call that takes one of two results, as `.values` and `[0]` do, or empty.
    """
    value = scope.lift(operands[0])
    if isinstance(value, Fixed):
        raise RefusedError(f"`{scope.text(operands[0])}` does not vary")
    keywords = {keyword_name(k): k.value for k in node.keywords}
    dim = keywords.get("dim") or (operands[1] if len(operands) == 2 and name != "norm" else None)
    keep = keywords.get("keepdim")
    plain_keep = keep is None or (isinstance(keep, ast.Constant) and isinstance(keep.value, bool))
    unknown = len(operands) - (2 if dim is not None and "dim" not in keywords else 1)
    if set(keywords) - {"dim", "keepdim"} or unknown or not plain_keep:
        raise RefusedError(f"`{scope.text(node)}` has an option that is not known to work for all rounds at once")
    if dim is None and (name in NEEDS_DIM or keep is not None or name == "normalize"):
        raise RefusedError(f"`{scope.text(node)}` does not say along which dimension")
    if (dim is not None and name in PAIRED) != bool(part):
        raise RefusedError(f"`{scope.text(node)}` gives more than one value per position")
    listed = list(dim.elts) if isinstance(dim, (ast.Tuple, ast.List)) else None if dim is None else [dim]
    numbers = None if listed is None else [integer(d) for d in listed]
    if numbers is not None and any(n is None for n in numbers):
        raise RefusedError(f"`{scope.text(node)}` has no plain dimension")
    given = None if numbers is None else [n for n in numbers if n is not None]
    if name in {"norm", "median"} and given is None and value.round_rank > 1:
        raise RefusedError(f"`{scope.text(node)}` flattens the round's value")
    if given is None:
        # Dimensions of size 1 have no part in a reduction over all of them.
        value = replace(value, slots=tuple(s for s in value.slots if s is not None) or value.slots)
    dims = round_dims(value, given)
    if name in _NEEDS_ELEMENTS and _empty_together(scope, node, dims):
        scope.needs_rounds.append(scope.text(node))
    live = live_loops([value])
    put = plain(seen_in(value, live))
    text = f"{_along_text(scope, name, node, operands[0], put, dim, dims)}{part}"
    kept = name in ALONG or (isinstance(keep, ast.Constant) and keep.value is True)
    result = spread(reduced(put, text, dims, kept), live, scope.depth)
    return replace(result, boolean=name in {"any", "all"})


def _empty_together(scope: Scope, node: ast.Call, dims: Sequence[int]) -> bool:
    """Whether a reduced dimension may have the length that a loop counts to. Of other lengths nothing says so."""
    loops = [loop for loop in scope.loops if not surely_runs(loop)]
    cost = scope.sites.cost(node)
    op = next((o for o in cost.ops if o.outermost and o.shapes), None) if cost is not None else None
    if cost is None or op is None or len(op.shapes[0]) <= max(dims, default=0):
        return bool(loops)
    rounds = cost.calls_per_entry if scope.caller is None else cost.calls
    lengths = {-(-(op.shapes[0][d] - loop.start) // loop.step) for d in dims for loop in loops}
    several = len(scope.loops) > 1 or scope.caller is not None
    return any(n == rounds or (several and n > 1 and rounds % n == 0) for n in lengths)


def _along_text(
    scope: Scope, name: str, node: ast.Call, operand: ast.expr, put: Batched, dim: ast.expr | None, dims: Sequence[int]
) -> str:
    if dim is None:
        method = {"max": "amax", "min": "amin"}.get(name, name)
        last = max(d for d in put.loops if d is not None)
        places = placed(put, dims, negative=all((s or 0) > last for s in put.slots))
        shown = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
        if name == "median":
            return f"{wrapped(put.text, put.atom)}.median({shown}).values"
        return f"{wrapped(put.text, put.atom)}.{method}({'dim=' if name == 'norm' else ''}{shown})"
    listed = list(dim.elts) if isinstance(dim, (ast.Tuple, ast.List)) else [dim]
    parts: dict[ast.expr, str] = {operand: in_place_of(node, operand, put.text, put.atom)}
    for entry, d in zip(listed, dims, strict=True):
        negative = (integer(entry) or 0) < 0
        parts[entry] = str(placed(put, [d], negative)[0])
    return scope.spliced(node, parts)


def matrix_product(scope: Scope, node: ast.expr, operands: Sequence[ast.expr]) -> Value:
    values = [scope.lift(o) for o in operands]
    op = scope.sites.op(node, *PRODUCT_OPERATORS)
    if op is None or len(op.shapes) < 2:
        raise RefusedError(f"`{scope.text(node)}` is no matrix product that the run saw")
    ranks = [len(s) for s in op.shapes[:2]]
    if not agree(values, ranks):
        raise RefusedError(f"the run saw other dimensions at `{scope.text(node)}`")
    batched = [v for v in values if isinstance(v, Batched)]
    if not batched:
        raise RefusedError(f"`{scope.text(node)}` does not vary")
    scope.meet(values)
    live = live_loops(batched)
    values = [seen_in(v, live) if isinstance(v, Batched) else v for v in values]
    result = product(values, ranks, len(live))
    return spread(result, live, scope.depth)


def einsum(scope: Scope, node: ast.Call) -> Value:
    """`einsum("bd,de->be", x[:, h], w[h])`: the loops get letters of their own."""
    text = node.args[0].value if node.args and isinstance(node.args[0], ast.Constant) else None
    values = [scope.lift(a) for a in node.args[1:]]
    if not isinstance(text, str) or "->" not in text or "." in text or node.keywords:
        raise RefusedError(f"`{scope.text(node)}` does not say which dimensions it keeps")
    inputs, output = text.replace(" ", "").split("->")
    terms = inputs.split(",")
    live = live_loops([v for v in values if isinstance(v, Batched)])
    letters = [c for c in ascii_lowercase if c not in text][: len(live)]
    if len(terms) != len(values) or len(letters) != len(live):
        raise RefusedError(f"`{scope.text(node)}` does not say which dimensions it keeps")
    parts: dict[ast.expr, str] = {}
    rights: list[int] = []
    for number, (argument, value) in enumerate(zip(node.args[1:], values, strict=True)):
        if isinstance(value, Fixed):
            continue
        if value.round_rank != len(terms[number]):
            raise RefusedError(f"the run saw other dimensions at `{scope.text(node)}`")
        moving = live_loops([value])
        put = seen_in(value, moving)
        put = put if put.plain else arranged(put, put.natural)
        rights.append(min(put.natural, len(output)))
        parts[argument] = put.text
        own = dict(zip(put.loops, (letters[live.index(k)] for k in moving), strict=True))
        own.update(zip(put.slots, terms[number], strict=True))
        terms[number] = "".join(own[d] for d in range(put.rank))
    scope.meet([v for v in values if isinstance(v, Batched)])
    # Where the first operand has the loops.
    cut = len(output) - rights[0]
    parts[node.args[0]] = f'"{",".join(terms)}->{output[:cut]}{"".join(letters)}{output[cut:]}"'
    return spread(standing(scope.spliced(node, parts), len(output), rights[0], len(live)), live, scope.depth)


def product_and_sum(scope: Scope, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
    """`torch.addmm(b, x[:, t], w)`: as it takes matrices only, the rows of all rounds stand below each other."""
    op = scope.sites.op(node, "aten::addmm")
    plain_options = all(isinstance(k.value, ast.Constant) for k in node.keywords)
    if op is None or len(operands) != 3 or not plain_options or [scope.varies(o) for o in operands] != [0, 1, 0]:
        raise RefusedError(f"more than the rows of `{scope.text(node)}` changes from round to round")
    if len(op.shapes[0]) != 1:
        raise RefusedError(f"`{scope.text(operands[0])}` may have a value for each row")
    scope.require_pure(operands[0])
    scope.require_pure(operands[2])
    value = scope.lift(operands[1])
    if not isinstance(value, Batched) or value.round_rank != 2 or None in (*value.loops, *value.slots):
        raise RefusedError(f"the run does not tell how the rows of `{scope.text(node)}` lie")
    value = value if value.slots[1] == value.rank - 1 else arranged(value, 2)
    rows, last = wrapped(value.text, value.atom), value.rank - 2
    text = scope.spliced(node, {operands[1]: f"{rows}.flatten(0, {last})"})
    return replace(value, text=f"{text}.unflatten(0, {rows}.shape[:{last + 1}])", atom=True, view=False, cut=None)


def attention(scope: Scope, node: ast.Call) -> Value:
    """`scaled_dot_product_attention(q[:, h], k[:, h], v[:, h])`: the loops become dimensions of the batch."""
    plain_options = all(k.arg in {"is_causal", "scale"} and not scope.varies(k.value) for k in node.keywords)
    values = [scope.lift(a) for a in node.args]
    batched = [v for v in values if isinstance(v, Batched)]
    if len(values) != 3 or not plain_options:
        raise RefusedError(f"`{scope.text(node)}` has an option that is not known to work for all rounds at once")
    if len(batched) != 3 or any(None in v.loops for v in batched):
        raise RefusedError("queries, keys or values are the same in every round of a loop")
    rank = batched[0].round_rank
    if rank < 2 or any(v.round_rank != rank for v in batched):
        raise RefusedError("queries, keys and values differ in how many dimensions they have")
    scope.meet(batched)
    right = between(batched, 2, rank)
    parts: dict[ast.expr, str] = {a: arranged(v, right).text for a, v in zip(node.args, batched, strict=True)}
    return standing(scope.spliced(node, parts), rank, right, scope.depth)


def loss(scope: Scope, name: str, node: ast.Call) -> Value:
    """`mse_loss(guess[c], truth[c])`, which averages over a round's elements; similarities along a dimension."""
    options = {keyword_name(k): k.value for k in node.keywords}
    known = {"dim"} if name in _SIMILARITIES else {"reduction", "pos_weight"}
    if len(node.args) != 2 or not options.keys() <= known:
        raise RefusedError(f"`{scope.text(node)}` has an option that is not known to work for all rounds at once")
    weight = options.get("pos_weight")
    operands = [*node.args, *([weight] if weight is not None else [])]
    values = [scope.lift(a) for a in operands]
    ranks = {v.round_rank for v in values[:2] if isinstance(v, Batched)}
    seen = scope.sites.cost(node)
    pairs = [o.shapes[:2] for o in seen.ops if o.outermost and len(o.shapes) > 1] if seen is not None else []
    if len(ranks) != 1 or not pairs or any(len(one) != len(other) for one, other in pairs):
        raise RefusedError(f"the run does not tell how the values of `{scope.text(node)}` meet")
    if any(v.round_rank != 0 if isinstance(v, Batched) else v.rank != 0 for v in values[2:]):
        raise RefusedError(f"`{scope.text(weight)}` may be more than a number")
    rank = ranks.pop()
    values = [replace(v, rank=rank) if isinstance(v, Fixed) and v.rank is None else v for v in values]
    scope.meet(values)
    texts, shape = together(values)
    parts: dict[ast.expr, str] = {a: text for a, (text, _) in zip(operands, texts, strict=True)}
    live = live_loops([shape])
    value = seen_in(shape, live)
    if name in _SIMILARITIES:
        return _similarity(scope, name, node, value, parts, options.get("dim"), live)
    how = options.get("reduction")
    reduction = "mean" if how is None else how.value if isinstance(how, ast.Constant) else None
    given = [parts[a] for a in node.args] + ([f"pos_weight={parts[weight]}"] if weight is not None else [])
    text = f'{scope.text(node.func)}({", ".join(given)}, reduction="none")'
    if reduction == "none":
        return spread(
            replace(value, text=text, atom=True, view=False, cut=None, boolean=False, fill=None), live, scope.depth
        )
    if reduction not in {"mean", "sum"}:
        raise RefusedError(f"`{scope.text(node)}` has an option that is not known to work for all rounds at once")
    dims = round_dims(value, None)
    places = placed(value, dims, negative=False)
    spots = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
    return spread(reduced(value, f"{text}.{reduction}({spots})", dims, keep=False), live, scope.depth)


_SIMILARITIES = frozenset({"cosine_similarity", "pairwise_distance"})


def _similarity(
    scope: Scope,
    name: str,
    node: ast.Call,
    value: Batched,
    parts: dict[ast.expr, str],
    dim: ast.expr | None,
    live: Sequence[int],
) -> Value:
    if name != "cosine_similarity":
        raise RefusedError(f"`{scope.text(node.func)}` is not known to work for all rounds at once")
    dims = round_dims(value, [1 if dim is None else integer(dim) or 0])
    place = placed(value, dims, negative=True)[0]
    if dim is not None:
        parts[dim] = str(place)
    text = scope.spliced(node, parts)
    text = text if dim is not None else f"{text[:-1]}, dim={place})"
    return spread(reduced(value, text, dims, keep=False), live, scope.depth)
