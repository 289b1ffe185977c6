"""Key and value heads that are repeated in memory so that each meets its group of query heads in a product.

A view that repeats them gains nothing, as a product copies its operands into place. What gains is to put the query
heads of a group below each other: one product of more rows with the heads as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from forwardlens.model import Edit, Shape
from forwardlens.rules.batched import RefusedError, wrapped
from forwardlens.rules.evidence import Sites
from forwardlens.rules.layout import LayoutMattersError, calls_of, reads_of
from forwardlens.rules.operations import is_torch_function
from forwardlens.source.dataflow import bindings, names_read
from forwardlens.source.rewrite import checked, has_comment, offsets, replace_node, replace_statements, stands_alone
from forwardlens.source.tree import Function, dotted, integer, is_atom, walk

_ATTENTION = "scaled_dot_product_attention"


@dataclass(frozen=True)
class Reader:
    """A product, or the call of an attention, that reads the repeated heads through `operand`."""

    node: ast.expr
    operand: ast.expr

    @property
    def attends(self) -> bool:
        func = self.node.func if isinstance(self.node, ast.Call) else None
        return isinstance(func, ast.Attribute) and func.attr == _ATTENTION


def readers_of(sites: Sites, node: ast.expr, depth: int = 0) -> list[Reader] | None:
    """The products that read the value of `node`; None if anything else does."""
    found: list[Reader] = []
    for read in _reads(sites, node, depth):
        reader = _reader(sites, read) if read is not None else None
        if reader is None:
            return None
        found.append(reader)
    return found or None


def is_spread(sites: Sites, call: ast.Call) -> bool:
    """`k[:, :, None].expand(…).reshape(…)`: a view that repeats heads, and a copy of it."""
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in {"reshape", "flatten"}:
        return False
    shown = sites.op(call, f"aten::{func.attr}")
    # Batch, heads, group, positions, width.
    if sites.inner_op(call, "aten::clone", "aten::copy_") is None or shown is None or len(shown.shapes[0]) != 5:
        return False
    function, base = sites.tree.function(call), func.value
    if isinstance(base, ast.Name) and function is not None:
        # The last value that a statement above gave the name.
        above = (n for n in walk(function) if isinstance(n, ast.Assign) and n.lineno < call.lineno)
        stores = [n for n in above if [dotted(t) for t in n.targets] == [base.id]]
        base = max(stores, key=lambda n: n.lineno).value if stores else base
    return isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr == "expand"


def advice(readers: Sequence[Reader]) -> str:
    """What to write instead of the repetition."""
    if all(reader.attends for reader in readers):
        return "`enable_gqa=True` lets the attention take the heads as they are"
    return "with the query heads of a group as rows below each other one product takes the heads as they are"


def _reads(sites: Sites, node: ast.expr, depth: int) -> Iterator[ast.expr | None]:
    """Where the value of `node` is read: at `node`, under a name, or where the function is called that returns it."""
    statement = sites.tree.parent(node)
    if isinstance(statement, ast.Assign):
        target = statement.targets[0]
        if len(statement.targets) != 1 or not isinstance(target, ast.Name):
            yield None
            return
        yield from reads_of(sites, statement, target.id)
    elif isinstance(statement, ast.Return):
        function = sites.tree.function(statement)
        try:
            calls = list(calls_of(sites, function)) if function is not None and not depth else []
        except LayoutMattersError:
            calls = []
        for call in calls:
            yield from _reads(sites, call, depth + 1)
        if not calls:
            yield None
    else:
        yield node


def _reader(sites: Sites, read: ast.expr) -> Reader | None:
    """The product of which `read`, as it is or with its last two dimensions swapped, is an operand."""
    operand, parent = read, sites.tree.parent(read)
    if isinstance(parent, ast.Attribute):
        call = sites.tree.parent(parent)
        if parent.attr == "mT":
            operand = parent
        elif isinstance(call, ast.Call) and call.func is parent and _swaps(sites, call):
            operand = call
        parent = sites.tree.parent(operand)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.MatMult):
        return Reader(parent, operand)
    if isinstance(parent, ast.Call) and operand in parent.args and isinstance(parent.func, ast.Attribute):
        library = is_torch_function(sites.tree.module, parent.func)
        if parent.func.attr == "matmul" or (library and parent.func.attr in {"einsum", _ATTENTION}):
            return Reader(parent, operand)
    return None


def _swaps(sites: Sites, call: ast.Call) -> bool:
    """`k.transpose(2, 3)` and `k.transpose(-1, -2)`, by the rank that the run saw."""
    op = sites.op(call, "aten::transpose")
    if op is None or not op.shapes or len(call.args) != 2 or call.keywords:
        return False
    rank, given = len(op.shapes[0]), [integer(a) for a in call.args]
    return {g + rank if g is not None and g < 0 else g for g in given} == {rank - 2, rank - 1}


# -- the fix


def folded(sites: Sites, call: ast.Call, base: ast.expr, count: ast.expr, shape: Shape) -> tuple[Edit, ...]:
    """Put the query heads of a group below each other instead of repeating the heads. Raises `RefusedError`."""
    tree, function, heads = sites.tree, sites.tree.function(call), len(shape) - 3
    readers = readers_of(sites, call) or []
    product = readers[0].node if len(readers) == 1 else None
    sides = _sides(product)
    if product is None:
        raise RefusedError("more than one product reads them")
    if sides is None:
        raise RefusedError("what reads them is no plain product of two matrices")
    if function is None or tree.function(product) is not function:
        raise RefusedError("the product stands in another function")
    queries, other = sides
    if other is not readers[0].operand:
        raise RefusedError("they are the left side of the product")
    op = sites.op(product, "aten::matmul")
    seen = op.shapes[:2] if op is not None and op.shape_variants == 1 else ()
    if len(seen) != 2 or len(seen[0]) != len(shape) or len(seen[1]) != len(shape) or seen[0][heads] != seen[1][heads]:
        raise RefusedError("the run does not tell that each query head has one of them")
    _require_same_count(function, count)
    texts = [queries, base, count, product]
    if any("\n" in tree.text(t) or has_comment(sites.source, *offsets(sites.source, t)) for t in texts):
        raise RefusedError("the product stands on several lines")
    size, rows = tree.text(count), wrapped(tree.text(queries), is_atom(queries))
    put = replace_node(
        sites.source, queries, f"{rows}.unflatten({heads}, (-1, {size})).flatten({heads + 1}, {heads + 2})"
    )
    back = f".unflatten({heads + 1}, ({size}, -1)).flatten({heads}, {heads + 1})"
    start, end = offsets(sites.source, product)
    opened = isinstance(product, ast.BinOp)
    around = [_insert(sites, start, "("), _insert(sites, end, f"){back}")] if opened else [_insert(sites, end, back)]
    edits = checked(sites.source, [put, *around, *_unrepeated(sites, function, call, base, product)])
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def _insert(sites: Sites, at: int, text: str) -> Edit:
    place = sites.source.position(at)
    return Edit(sites.source.path, place, place, text)


def _sides(product: ast.expr | None) -> tuple[ast.expr, ast.expr] | None:
    """`a` and `b` of `a @ b`, `torch.matmul(a, b)` and `a.matmul(b)`."""
    if isinstance(product, ast.BinOp):
        return product.left, product.right
    if not isinstance(product, ast.Call) or product.keywords or not isinstance(product.func, ast.Attribute):
        return None
    if product.func.attr != "matmul":
        return None
    both = [*([product.func.value] if len(product.args) == 1 else []), *product.args]
    return (both[0], both[1]) if len(both) == 2 else None


def _require_same_count(function: Function, count: ast.expr) -> None:
    """The product has to see the count that the heads were repeated by, and may ask for it again."""
    place = dotted(count)
    if integer(count) is None and place is None:
        raise RefusedError("how often they are repeated is computed")
    stored = (n for n in walk(function) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store))
    several = any(len(bindings(function, name)) > 1 for name in names_read(count))
    if several or any(dotted(n) == place for n in stored):
        raise RefusedError("how often they are repeated may change")


def _unrepeated(sites: Sites, function: Function, call: ast.Call, base: ast.expr, product: ast.expr) -> Iterator[Edit]:
    """Leave out the repetition: with its statement, where that only gives a name its own heads repeated."""
    tree, statement = sites.tree, sites.tree.statement(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call:
        if any(call is below for below in walk(product)):
            yield replace_node(sites.source, call, tree.text(base))
            return
        raise RefusedError("the product is not where they are repeated")
    if statement not in function.body:
        raise RefusedError("they are repeated under a condition")
    name = dotted(statement.targets[0])
    if dotted(base) == name and stands_alone(tree, statement):
        yield replace_statements(tree, [statement], [])
    else:
        kept = dotted(base)
        if kept is None or len(bindings(function, kept.split(".")[0])) > 1:
            raise RefusedError("what is repeated may change before the product")
        yield replace_node(sites.source, call, tree.text(base))
