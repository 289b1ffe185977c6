"""Sums and means over all that a mask picks, by indexing or by `masked_select`."""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from forwardlens.model import Edit, Fix, OpCost, Shape
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites
from forwardlens.rules.masked.picked import Picked, Selection
from forwardlens.rules.operations import is_repeatable, is_torch_function, torch_name
from forwardlens.source.dataflow import aliases_of_all, definition, may_alias, names_bound, names_read, overlap
from forwardlens.source.rewrite import checked, has_comment, insert_before, offsets, replace_node, stands_alone
from forwardlens.source.tree import Tree, argument, dotted, integer, walk


@dataclass(frozen=True)
class _Named:
    """The name that the picked elements get, and where else it asks how many they are.

    `kept` if the mask is still the same wherever the name is read.
    """

    name: str
    lengths: Sequence[ast.expr]
    kept: bool


@dataclass(frozen=True)
class Reduced:
    """A sum or mean over all picked elements, of the pick itself or of the name that it was given."""

    call: ast.Call
    name: str
    selection: Selection
    named: _Named | None


def selected_from(sites: Sites, call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """`x` and `mask` of `torch.masked_select(x, mask)`, also as a method."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "masked_select":
        return None
    function = is_torch_function(sites.tree.module, call.func)
    base = argument(call, 0, "input") if function else call.func.value
    mask = argument(call, 1 if function else 0, "mask")
    plain = len(call.args) + len(call.keywords) == (2 if function else 1)
    return (base, mask) if plain and base is not None and mask is not None else None


def reduced_at(sites: Sites, call: ast.Call) -> Reduced | None:
    found = _reduction(sites, call)
    if found is None:
        return None
    name, value = found
    made = _only_value(sites, value) if isinstance(value, ast.Name) else None
    selection = _selection(sites, made.value if made is not None else value, call)
    if selection is None or not is_repeatable(selection.mask):
        return None
    if made is None or not isinstance(value, ast.Name):
        return Reduced(call, name, selection, None)
    named = _named(sites, made, value, selection)
    return Reduced(call, name, selection, named) if named is not None else None


def reduced_fix(sites: Sites, found: Reduced) -> tuple[Fix | None, str]:
    """Add up what `torch.where` leaves in place, and divide by the number of true elements for a mean."""
    selection, torch = found.selection, torch_name(sites.tree.module)
    if torch is None or any(has_comment(sites.source, *offsets(sites.source, n)) for n in (found.call, selection.node)):
        return None, "the text around it does not allow it"
    if found.name == "mean" and selection.dtype == "float16":
        return None, "a sum of `float16` may be too large where the mean is not"
    if found.named is not None:
        edits = _named_edits(sites, found, found.named, torch)
    else:
        edits = _direct_edits(sites, found, torch)
    if edits is None:
        return None, "the number of picked elements cannot be told from the mask there"
    fitting = checked(sites.source, edits)
    return (Fix("Add up without picking", "safe", fitting), "") if fitting else (None, "the edits do not fit together")


def _direct_edits(sites: Sites, found: Reduced, torch: str) -> list[Edit] | None:
    """For `x[mask].mean()`."""
    tree, selection = sites.tree, found.selection
    base, mask, edits = tree.text(selection.base), tree.text(selection.mask), list[Edit]()
    if found.name == "mean" and selection.broadcast and dotted(selection.base) is None:
        statement, function = tree.statement(found.call), tree.function(found.call)
        if function is None or not _comes_first(sites, found.call, statement) or not is_repeatable(selection.base):
            return None
        name = sites.fresh_name(function, selection.node, "values")
        edits, base = [insert_before(tree, statement, [f"{name} = {base}"])], name
    count = tree.atom(selection.mask)
    if selection.broadcast:
        count = f"{torch}.broadcast_tensors({mask}, {base})[0]"
    return [*edits, _added_up(sites, found, f"{torch}.where({mask}, {base}, 0)", f"{count}.count_nonzero()")]


def _comes_first(sites: Sites, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether a statement computes nothing but with the value of `call`."""
    above = sites.tree.parent(call)
    while isinstance(above, (ast.BinOp, ast.UnaryOp)):
        above = sites.tree.parent(above)
    return above is statement and isinstance(above, (ast.Assign, ast.Return)) and stands_alone(sites.tree, statement)


def _named_edits(sites: Sites, found: Reduced, named: _Named, torch: str) -> list[Edit] | None:
    """For `picked = x[mask]` and `picked.mean()` further down."""
    tree, selection = sites.tree, found.selection
    if (found.name == "mean" or named.lengths) and not named.kept:
        return None
    count = tree.atom(selection.mask)
    if selection.broadcast:
        count = f"{count}.expand_as({named.name})"
    whole = f"{torch}.where({tree.text(selection.mask)}, {tree.text(selection.base)}, 0)"
    return [
        replace_node(sites.source, selection.node, whole),
        _added_up(sites, found, named.name, f"{count}.count_nonzero()"),
        *(
            replace_node(sites.source, n, _length(sites, n, found.call, f"{count}.count_nonzero()"))
            for n in named.lengths
        ),
    ]


def _added_up(sites: Sites, found: Reduced, whole: str, count: str) -> Edit:
    text = f"{whole}.sum()"
    if found.name == "mean":
        text = f"{text} / {count}"
        if not isinstance(sites.tree.parent(found.call), (ast.Return, ast.Assign)):
            text = f"({text})"
    return replace_node(sites.source, found.call, text)


def _length(sites: Sites, node: ast.expr, call: ast.Call, count: str) -> str:
    """The number of picked elements, as a number unless only the sum is divided by it."""
    above = sites.tree.parent(node)
    divides = isinstance(above, ast.BinOp) and isinstance(above.op, ast.Div) and above.left is call
    return count if divides else f"int({count})"


def _reduction(sites: Sites, call: ast.Call) -> tuple[str, ast.expr] | None:
    """The name of a sum or a mean, and what it takes; what a mask picks has one dimension."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in {"sum", "mean"}:
        return None
    function = is_torch_function(sites.tree.module, func)
    value = argument(call, 0, "input") if function else func.value
    axis = argument(call, 1 if function else 0, "dim")
    given = (value is not None) + (axis is not None) - (not function)
    plain = len(call.args) + len(call.keywords) == given and (axis is None or integer(axis) in {0, -1})
    return (func.attr, value) if plain and value is not None else None


def _selection(sites: Sites, node: ast.expr, call: ast.Call) -> Selection | None:
    if isinstance(node, ast.Subscript):
        picked = Picked(sites, node, "aten::index")
        if not picked.fits or picked.trailing:
            return None
        op = sites.op(node, "aten::index")
        return Selection(node, node.value, picked.mask, picked.shape, picked.count, _dtype(op), broadcast=False)
    selected = selected_from(sites, node) if isinstance(node, ast.Call) else None
    op, ran = sites.op(node, "aten::masked_select"), sites.op(call, "aten::sum", "aten::mean")
    if selected is None or op is None or ran is None or len(op.shapes) < 2:
        return None
    base, mask = op.shapes[:2]
    count = math.prod(ran.shapes[0]) if ran.shapes else 0
    # A size of 1 may be another one in another call.
    same = base == mask and 1 not in mask
    return Selection(node, *selected, _broadcast(base, mask), count, _dtype(op), broadcast=not same)


def _dtype(op: OpCost | None) -> str:
    """The dtype of what an operator picks from; empty where the run does not tell."""
    return op.dtypes[0] if op is not None and op.dtypes else ""


def _broadcast(one: Shape, other: Shape) -> Shape:
    pairs = [*zip_longest(reversed(one), reversed(other), fillvalue=1)]
    return tuple(b if a == 1 else a for a, b in reversed(pairs))


def _only_value(sites: Sites, name: ast.Name) -> ast.Assign | None:
    """The statement that gives a name its only value."""
    function = sites.tree.function(name)
    made = definition(sites.tree, function, name.id) if function is not None else None
    return made if made is not None and [dotted(t) for t in made.targets] == [name.id] else None


def _named(sites: Sites, made: ast.Assign, name: ast.Name, selection: Selection) -> _Named | None:
    """What is done with the name of picked elements; None if it is more than to add them up once and to count them."""
    tree, function = sites.tree, sites.tree.function(name)
    used = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name.id] if function is not None else []
    others = [n for n in used if n is not name and n not in made.targets]
    lengths = [n for n in (_length_of(tree, other) for other in others) if n is not None]
    if function is None or len(lengths) < len(others):
        return None
    block = tree.block(made)
    kept = _is_kept(sites, function, selection.mask, block[block.index(made) + 1 :])
    return _Named(name.id, lengths, kept)


def _length_of(tree: Tree, name: ast.Name) -> ast.expr | None:
    """`len(x)`, `x.numel()`, `x.size(0)` or `x.shape[0]` around the read of a name."""
    above = tree.parent(name)
    if isinstance(above, ast.Call):
        return above if dotted(above.func) == "len" and above.args == [name] and not above.keywords else None
    around = tree.parent(above) if isinstance(above, ast.Attribute) else None
    if not isinstance(above, ast.Attribute):
        return None
    if isinstance(around, ast.Subscript) and above.attr == "shape":
        return around if integer(around.slice) in {0, -1} else None
    if not isinstance(around, ast.Call) or around.func is not above or around.keywords:
        return None
    sized = above.attr == "size" and len(around.args) == 1 and integer(around.args[0]) in {0, -1}
    return around if sized or (above.attr in {"numel", "nelement"} and not around.args) else None


def _is_kept(sites: Sites, function: ast.AST, mask: ast.expr, below: Sequence[ast.stmt]) -> bool:
    """Whether no statement `below` gives what a mask reads another value."""
    read = names_read(mask)
    shared = aliases_of_all(function, {*read, *may_alias(mask)})
    changed = [place for statement in below for _, place in changes(sites, statement)]
    bound = {name for statement in below for name in names_bound(statement)}
    return not (read & bound) and not any(p is None or any(overlap(p, s) for s in shared) for p in changed)
