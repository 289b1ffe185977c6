"""What the masks of scores are as the mask of `scaled_dot_product_attention`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from forwardlens.rules.attention.chain import Chain
from forwardlens.rules.attention.errors import NoCounterpartError
from forwardlens.rules.attention.hidden import hides
from forwardlens.rules.attention.parts import Guard, Mask, not_none
from forwardlens.rules.batched import wrapped
from forwardlens.rules.constants import attribute_value
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.operations import is_repeatable, is_torch_function, torch_name
from forwardlens.source.dataflow import definition
from forwardlens.source.tree import argument, dotted, integer, is_atom, walk

# Whether an expression is a square of what its triangle is of.
_Square = Callable[[Sites, ast.expr], bool]


def mask_options(chain: Chain, query: ast.expr, torch: str) -> list[str]:
    """The argument that does what the masks did, if there are any. Raises `NoCounterpartError`."""
    masks, sites = list(reversed(chain.masks)), chain.sites
    if not masks:
        return []
    if len(masks) == 1 and masks[0].guard is None and _is_causal(chain, masks[0]):
        for name in (n for n in walk(masks[0].mask) if isinstance(n, ast.Name)):
            chain.last_read(name)
        return ["is_causal=True"]
    if len({None if mask.guard is None else sites.tree.text(mask.guard.test) for mask in masks}) > 1:
        raise NoCounterpartError("its masks are optional one by one")
    if any(mask.kind == "add" for mask in masks[1:]):
        raise NoCounterpartError("a mask is added to scores that are hidden already")
    for mask in masks:
        _require_fitting(mask, chain)
    ranks = {None if mask.shape is None else len(mask.shape) for mask in masks}
    text = _combined(sites, masks, query, torch)
    if ranks <= {0, 1}:
        raise NoCounterpartError("its mask has fewer dimensions than the fused operator takes")
    if len(chain.shape) == 3 and None in ranks:
        # The run had no mask: counted from the end the new dimension is right for two and for three.
        text = f"{_atom(text)}.unsqueeze(-3)"
    elif len(chain.shape) == 3 and 3 in ranks:
        text = f"{_atom(text)}.unsqueeze(1)"
    elif len(chain.shape) == 4 and ranks == {3}:
        # For a mask with three dimensions the operator would run the separate steps itself.
        text = f"{_atom(text)}.unsqueeze(0)"
    return [f"attn_mask={_guarded(sites, masks[0].guard, text)}"]


def _atom(text: str) -> str:
    """`text` as it may stand in front of a dot."""
    return wrapped(text, is_atom(ast.parse(f"({text})", mode="eval").body))


def _require_fitting(mask: Mask, chain: Chain) -> None:
    """The fused operator does not repeat queries for a mask that is larger than the scores."""
    if mask.shape is None:
        return
    if mask.scores not in {None, chain.shape}:
        raise NoCounterpartError("its mask is larger than its scores")
    sizes = list(zip(reversed(mask.shape), reversed(chain.shape), strict=False))
    if len(mask.shape) > len(chain.shape) or any(one not in {1, other} for one, other in sizes):
        raise NoCounterpartError("its mask is larger than its scores")


def _guarded(sites: Sites, guard: Guard | None, text: str) -> str:
    if guard is None:
        return text
    name = not_none(guard.test)
    return (
        f"{text} if {sites.tree.text(guard.test)} else None" if name is None else f"None if {name} is None else {text}"
    )


def _combined(sites: Sites, masks: list[Mask], query: ast.expr, torch: str) -> str:
    name = sites.tree.text(query) if isinstance(query, ast.Name) else None
    if all(mask.kind != "add" and mask.infinite for mask in masks):
        return " & ".join(_kept(sites, mask) for mask in masks)
    if masks[0].kind == "add":
        text, rest = _added(sites, masks[0], name), masks[1:]
    else:
        text, rest = "0.0" if name is None else f"{name}.new_zeros(())", masks
    for mask in rest:
        given, keeps = mask.mask, mask.kind == "keep"
        if isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.Invert):
            given, keeps = given.operand, not keeps
        value = _value_text(sites, mask, name)
        parts = (text, value) if keeps else (value, text)
        text = f"{torch}.where({sites.tree.text(given)}, {', '.join(parts)})"
    return text


def _added(sites: Sites, mask: Mask, query: str | None) -> str:
    text = sites.tree.text(mask.mask)
    if mask.shape is not None:
        return text
    if query is None:
        raise NoCounterpartError("the run had no mask, and the dtype of the queries has no name")
    # Adding takes any dtype. The operator would read a boolean mask that the run did not have as what it keeps.
    return f"{_atom(text)}.to({query}.dtype)"


def _value_text(sites: Sites, mask: Mask, query: str | None) -> str:
    assert mask.value is not None
    # What is added must drown every score, so that a row that hides everything stays uniform. That is the least number
    # of the dtype, or rather half of it: kernels of a GPU multiply by log2(e), which would make it infinite.
    if query is not None and not mask.infinite:
        return f"{torch_name(sites.tree.module)}.finfo({query}.dtype).min / 2"
    if mask.owner:
        raise NoCounterpartError("the dtype of the queries has no name")
    text = sites.tree.text(mask.value)
    return f"{text} / 2" if isinstance(mask.value, ast.Attribute) else text


def _kept(sites: Sites, mask: Mask) -> str:
    """What a mask leaves visible."""
    node, tree = mask.mask, sites.tree
    if mask.kind == "keep":
        return tree.text(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return tree.text(node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        sign = "!=" if isinstance(node.ops[0], ast.Eq) else "=="
        return f"({tree.text(node.left)} {sign} {tree.text(node.comparators[0])})"
    return f"~{sites.tree.atom(node)}"


def _is_causal(chain: Chain, mask: Mask) -> bool:
    """Whether a mask certainly hides what comes later, and nothing else."""
    sites = chain.sites
    if chain.shape[-2] != chain.shape[-1]:
        return False
    if mask.kind == "add":
        return _triangle(sites, mask.mask, _hidden, 0) == ("triu", 1)
    return _hides_later(sites, mask.mask, hides_true=mask.kind == "fill")


def _hides_later(sites: Sites, node: ast.expr, *, hides_true: bool) -> bool:
    """Whether a boolean mask is true for what comes later alone, or for all but that where it hides what is false."""
    while True:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            node, hides_true = node.operand, not hides_true
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and integer(node.comparators[0]) in {0, 1}:
            kind = (type(node.ops[0]), integer(node.comparators[0]))
            if kind not in {(ast.Eq, 0), (ast.Eq, 1), (ast.NotEq, 0), (ast.Gt, 0)}:
                return False
            node, hides_true = node.left, hides_true if kind != (ast.Eq, 0) else not hides_true
        else:
            break
    triangle = _triangle(sites, node, _ones, 0)
    return triangle == (("triu", 1) if hides_true else ("tril", 0))


def _triangle(sites: Sites, node: ast.expr, is_square: _Square, depth: int) -> tuple[str, int] | None:
    """Which triangle of a square an expression is, and from which diagonal on."""
    tree = sites.tree
    if depth > 8:
        return None
    if isinstance(node, ast.Name):
        function = tree.function(node)
        statement = definition(tree, function, node.id) if function is not None else None
        single = statement is not None and isinstance(statement.targets[0], ast.Name)
        return _triangle(sites, statement.value, is_square, depth + 1) if statement is not None and single else None
    if isinstance(node, ast.Attribute):
        value = attribute_value(tree, node, node.attr) if dotted(node) == f"self.{node.attr}" else None
        return _triangle(sites, value, is_square, depth + 1) if value is not None else None
    if isinstance(node, ast.Subscript):
        return _triangle(sites, node.value, is_square, depth + 1) if _cuts_square(sites, node) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name = node.func.attr
    function = is_torch_function(tree.module, node.func)
    base = node.args[0] if function and node.args else node.func.value
    if name in {"tril", "triu"}:
        given = argument(node, 1 if function else 0, "diagonal")
        diagonal = 0 if given is None else integer(given)
        return (name, diagonal) if diagonal is not None and is_square(sites, base) else None
    if name in {"bool", "to", "type", "view", "reshape", "unsqueeze", "float"} and not function:
        return _triangle(sites, base, is_square, depth + 1)
    if is_square is _hidden and name in {"masked_fill", "masked_fill_"} and not function and len(node.args) == 2:
        filled = _zeros(sites, base) and _is_hiding(sites, node.args[1])
        return ("triu", 1) if filled and _hides_later(sites, node.args[0], hides_true=True) else None
    known = is_square is _hidden and name == "generate_square_subsequent_mask"
    return ("triu", 1) if known and len(node.args) == 1 and not node.keywords else None


def _cuts_square(sites: Sites, node: ast.Subscript) -> bool:
    """`[:n, :n]` and `[:, :, :n, :n]` keep the diagonal where it is; `[None]` only adds a dimension."""
    items = index_items(node)
    for item in items:
        none = isinstance(item, ast.Constant) and item.value is None
        if not none and not (isinstance(item, ast.Slice) and item.lower is None and item.step is None):
            return False
    ends = [sites.tree.text(i.upper) for i in items if isinstance(i, ast.Slice) and i.upper is not None]
    last = items[-2:] if ends else []
    both = all(isinstance(i, ast.Slice) and i.upper is not None for i in last)
    return not ends or (len(ends) == 2 and ends[0] == ends[1] and both)


def _ones(sites: Sites, node: ast.expr) -> bool:
    """`torch.ones(n, n)`, and `torch.ones((n, n))`."""
    return _square_of(sites, node, frozenset({"ones", "new_ones"})) is not None


def _zeros(sites: Sites, node: ast.expr) -> bool:
    return _square_of(sites, node, frozenset({"zeros", "new_zeros"})) is not None


def _hidden(sites: Sites, node: ast.expr) -> bool:
    """`torch.full((n, n), -inf)`, and `torch.ones(n, n) * -inf`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = ((node.left, node.right), (node.right, node.left))
        return any(_ones(sites, one) and _is_hiding(sites, other) for one, other in sides)
    made = _square_of(sites, node, frozenset({"full", "new_full"}))
    value = None if made is None else argument(made, 1, "fill_value")
    return value is not None and _is_hiding(sites, value)


def _is_hiding(sites: Sites, value: ast.expr) -> bool:
    """Whether a number leaves no weight to a score that it is added to."""
    found = hides(sites.tree, value)
    return found is not None and found.lowest


def _square_of(sites: Sites, node: ast.expr, makers: frozenset[str]) -> ast.Call | None:
    """The call of one of `makers` that an expression is, if what it makes is a square."""
    if isinstance(node, ast.Name):
        function = sites.tree.function(node)
        statement = definition(sites.tree, function, node.id) if function is not None else None
        return None if statement is None else _square_of(sites, statement.value, makers)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr in {"bool", "to"}:
        return _square_of(sites, node.func.value, makers)
    if node.func.attr not in makers or not node.args:
        return None
    first = node.args[0]
    sizes = list(first.elts) if isinstance(first, (ast.Tuple, ast.List)) else node.args
    texts = [sites.tree.text(size) for size in sizes]
    square = len(texts) >= 2 and texts[-1] == texts[-2] and all(is_repeatable(size) for size in sizes)
    return node if square else None
