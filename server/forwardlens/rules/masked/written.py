"""Statements that write to what a mask picks, alone or two that share all elements between them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from forwardlens.model import Edit, Fix
from forwardlens.rules.effects import changes
from forwardlens.rules.escape import private_since
from forwardlens.rules.evidence import Sites
from forwardlens.rules.masked.picked import LEAST_ROWS, Picked
from forwardlens.rules.masked.unpicked import Whole, whole_value
from forwardlens.rules.operations import called_name, is_repeatable, torch_function, torch_name
from forwardlens.rules.repeated import insert_after
from forwardlens.source.dataflow import aliases_of_all, definition, may_alias, names_read, overlap
from forwardlens.source.rewrite import (
    checked,
    has_comment,
    offsets,
    replace_statements,
    stands_alone,
)
from forwardlens.source.tree import dotted, walk

# A line that is longer becomes one for each argument.
_LONG = 88
# Functions that make a tensor whose elements nothing has computed.
_MADE = frozenset(
    "zeros_like ones_like empty_like full_like zeros ones empty full new_zeros new_ones new_empty new_full".split()
)
# Functions whose result is boolean.
_ASKING = frozenset(
    """gt ge lt le eq ne greater less isnan isinf isfinite isclose logical_and logical_or logical_xor logical_not
    signbit bool""".split()
)


@dataclass(frozen=True)
class Written:
    """A statement that writes to what a mask picks."""

    node: ast.Assign | ast.AugAssign
    target: ast.Subscript
    picked: Picked
    whole: Whole


def written_in(sites: Sites, node: ast.AST) -> Written | None:
    if isinstance(node, ast.Assign):
        target = node.targets[0] if len(node.targets) == 1 else None
    else:
        target = node.target if isinstance(node, ast.AugAssign) else None
    if not isinstance(node, (ast.Assign, ast.AugAssign)) or not isinstance(target, ast.Subscript):
        return None
    picked = Picked(sites, target, "aten::index_put_")
    if not picked.fits or (picked.trailing and picked.density < LEAST_ROWS):
        return None
    whole = whole_value(sites, node, target, node.value, picked)
    return Written(node, target, picked, whole) if whole is not None else None


def selected_fix(sites: Sites, edits: Sequence[Edit]) -> tuple[Fix | None, str]:
    found = checked(sites.source, edits)
    if found is None:
        return None, "the text around it does not allow it"
    return Fix("Select with torch.where", "safe", found), ""


def rest_of(sites: Sites, written: Written) -> Written | None:
    """The next statement, if it writes to all elements that `written` leaves out, and both can be one selection."""
    block = sites.tree.block(written.node)
    below = block[block.index(written.node) + 1 :][:1]
    rest = written_in(sites, below[0]) if below else None
    if rest is None or written.whole.obstacle or rest.whole.obstacle or written.picked.trailing or rest.picked.trailing:
        return None
    place, here = written.target.value, (written.node, rest.node)
    plain = all(isinstance(n, ast.Assign) and is_repeatable(n.value) for n in here)
    if (
        not plain
        or not isinstance(place, ast.Name)
        or dotted(place) != dotted(rest.target.value)
        or not all(stands_alone(sites.tree, n) for n in here)
    ):
        return None
    if private_since(sites, written.node, place.id) is None or torch_name(sites.tree.module) is None:
        return None
    masks = written.picked.mask, rest.picked.mask
    if any(place.id in names_read(mask) for mask in masks) or _reads_whole(sites, rest, place.id):
        return None
    fits = all(is_repeatable(m) for m in masks) and not any(
        has_comment(sites.source, *offsets(sites.source, n)) for n in here
    )
    return rest if fits and _are_complements(sites, *masks, rest.node) else None


def _reads_whole(sites: Sites, written: Written, name: str) -> bool:
    """Whether what is written depends on more elements of `name` than those that the mask picks."""
    mask = sites.tree.text(written.target.slice)
    reads = [n for n in walk(written.node.value) if isinstance(n, ast.Name) and n.id == name]
    around = [sites.tree.parent(read) for read in reads]
    return not all(isinstance(n, ast.Subscript) and sites.tree.text(n.slice) == mask for n in around)


def is_rest(sites: Sites, written: Written) -> bool:
    block = sites.tree.block(written.node)
    at = block.index(written.node)
    above = written_in(sites, block[at - 1]) if at else None
    rest = rest_of(sites, above) if above is not None and not is_rest(sites, above) else None
    return rest is not None and rest.node is written.node


def rest_fix(sites: Sites, written: Written, rest: Written) -> tuple[Fix | None, str]:
    tree, place = sites.tree, written.target.value
    assert isinstance(place, ast.Name)
    mask = tree.text(written.picked.mask)
    called, new, other = f"{place.id} = {torch_name(tree.module)}.where(", written.whole.text, rest.whole.text
    line = f"{called}{mask}, {new}, {other})"
    begin, end = offsets(sites.source, written.node)[0], offsets(sites.source, rest.node)[1]
    commented = has_comment(sites.source, begin, end) or "#" in sites.source.line(rest.node.end_lineno or 0)
    indent = sites.source.indentation(written.node.lineno)
    edits = [replace_statements(tree, [written.node, rest.node], [line])]
    if commented or len(indent) + len(line) > _LONG:
        more = "\t" if "\t" in indent else "    "
        edits = [
            replace_statements(tree, [written.node], [called, f"{more}{mask},", f"{more}{new},"]),
            replace_statements(tree, [rest.node], [f"{more}{other},"]),
            insert_after(tree, rest.node, [")"]),
        ]
    made = private_since(sites, written.node, place.id)
    if made is not None and _is_needless(sites, made, written.node, rest.node, place.id):
        edits.append(replace_statements(tree, [made], []))
    return selected_fix(sites, edits)


def _is_needless(sites: Sites, made: ast.Assign, first: ast.stmt, last: ast.stmt, name: str) -> bool:
    """Whether nothing needs the tensor `name` that `made` makes once all of its elements are given at `last`."""
    block = sites.tree.block(made)
    func = made.value.func if isinstance(made.value, ast.Call) else None
    called = func.attr if isinstance(func, ast.Attribute) else dotted(func) if func is not None else None
    if called not in _MADE or first not in block or not stands_alone(sites.tree, made):
        return False
    stretch = block[block.index(made) + 1 : block.index(last) + 1]
    written = [n for s in (first, last) if isinstance(s, ast.Assign) for t in s.targets for n in walk(t)]
    reads = [n for s in stretch for n in walk(s) if isinstance(n, ast.Name) and n.id == name and n not in written]
    return not reads and not has_comment(sites.source, *offsets(sites.source, made))


def _are_complements(sites: Sites, one: ast.expr, other: ast.expr, last: ast.stmt) -> bool:
    """Whether two masks are boolean and each is true where the other is not, from where they are made to `last`."""
    for mask, opposite in ((one, other), (other, one)):
        value = _value_until(sites, mask, last)
        inverted = _inverted(sites, value) if value is not None else None
        if inverted is not None and ast.dump(inverted) == ast.dump(opposite):
            return _is_boolean(sites, opposite, last)
    return False


def _value_until(sites: Sites, mask: ast.expr, last: ast.stmt) -> ast.expr | None:
    """What a mask was made of, if it is still that at `last`."""
    if not isinstance(mask, ast.Name):
        return mask
    function = sites.tree.function(mask)
    made = definition(sites.tree, function, mask.id) if function is not None else None
    block = sites.tree.block(last)
    if made is None or function is None or made not in block or [dotted(t) for t in made.targets] != [mask.id]:
        return None
    shared = aliases_of_all(function, {mask.id, *may_alias(made.value)})
    between = block[block.index(made) + 1 : block.index(last)]
    changed = [place for statement in between for _, place in changes(sites, statement)]
    return None if any(p is None or any(overlap(p, s) for s in shared) for p in changed) else made.value


def _inverted(sites: Sites, node: ast.expr) -> ast.expr | None:
    """`m` for `~m` and `torch.logical_not(m)`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return node.operand
    if (
        not isinstance(node, ast.Call)
        or node.keywords
        or called_name(sites.tree.module, node) not in {"logical_not", "bitwise_not"}
    ):
        return None
    if torch_function(sites.tree.module, node.func) is not None:
        return node.args[0] if len(node.args) == 1 else None
    return node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None


def _is_boolean(sites: Sites, mask: ast.expr, last: ast.stmt) -> bool:
    """Whether a mask is boolean for certain: `~` of another dtype does not turn true into false."""
    value = _value_until(sites, mask, last)
    if isinstance(value, ast.Compare):
        return True
    if isinstance(value, ast.Call):
        return called_name(sites.tree.module, value) in _ASKING
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
        return _is_boolean(sites, value.left, last) and _is_boolean(sites, value.right, last)
    inverted = _inverted(sites, value) if value is not None else None
    return inverted is not None and _is_boolean(sites, inverted, last)
