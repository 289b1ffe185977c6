"""What the run saw of an expression that a boolean mask picks elements of."""

from __future__ import annotations

import ast
import math
from dataclasses import dataclass

from forwardlens.model import Shape
from forwardlens.rules.evidence import Sites, index_items, percent, times

# A mask of rows copies only the rows that it picks; `where` copies all of them and pays if they are not many more.
LEAST_ROWS = 0.25


class Picked:
    """What the run saw of an expression `x[mask]`: the shapes of both, and how many elements were picked."""

    def __init__(self, sites: Sites, node: ast.Subscript, operator: str) -> None:
        items = index_items(node)
        op = sites.op(node, operator)
        found = sites.inner_op(node, "aten::nonzero")
        self.mask = items[0] if items else node.slice  # `x[()]` has none
        self.seen = len(items) == 1 and op is not None and found is not None and bool(found.shapes)
        self.base: Shape = op.shapes[0] if op is not None and op.shapes else ()
        self.shape: Shape = found.shapes[0] if found is not None and found.shapes else ()
        self.written: Shape | None = op.shapes[2] if op is not None and len(op.shapes) > 2 else None
        self.count = _count(sites, node, len(self.shape))

    @property
    def fits(self) -> bool:
        """The mask covers the tensor's first dimensions."""
        return self.seen and bool(self.shape) and self.base[: len(self.shape)] == self.shape

    @property
    def density(self) -> float:
        return self.count / max(math.prod(self.shape), 1)

    @property
    def trailing(self) -> int:
        return len(self.base) - len(self.shape)


@dataclass(frozen=True)
class Selection:
    """`x[mask]` or `masked_select(x, mask)`: what is picked from, of which shape, and how many elements.

    `broadcast` if the mask and what it picks from may have other shapes than each other.
    """

    node: ast.expr
    base: ast.expr
    mask: ast.expr
    shape: Shape
    count: int
    dtype: str
    broadcast: bool


def _count(sites: Sites, node: ast.Subscript, rank: int) -> int:
    cost = sites.cost(node)
    for op in cost.ops if cost is not None else ():
        if op.name == "aten::select" and op.shapes and len(op.shapes[0]) == 2 and op.shapes[0][1] == rank:
            return op.shapes[0][0]
    return 0


def message_of(
    sites: Sites, node: ast.expr | ast.stmt, picked: Picked | Selection, searches: int, share: float, end: str
) -> str:
    return (
        f"`{sites.tree.text(node)}` lists the true elements of its mask {times(searches)} and moves "
        f"{picked.count:,} of {math.prod(picked.shape):,} one by one, {percent(share)} of the forward: {end}"
    )


def with_dimensions(sites: Sites, mask: ast.expr, trailing: int) -> str:
    text = sites.tree.text(mask)
    if not trailing:
        return text
    plain = isinstance(mask, (ast.Name, ast.Attribute, ast.Call))
    return f"{text if plain else f'({text})'}[..., {', '.join(['None'] * trailing)}]"
