"""What stands between the products of attention: masks, scales, and the conditions that they depend on."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from forwardlens.model import Shape
from forwardlens.source.tree import dotted


@dataclass(frozen=True)
class Mask:
    """`fill` hides the scores where it is true, `keep` where it is false, `add` is added to them.

    `value` is what hides, and `owner` says that it asks for the dtype of the scores. `guard` is the condition under
    which the mask is there at all. `shape` and `scores` are the shapes of the mask and of what it was put on.
    """

    kind: Literal["fill", "keep", "add"]
    mask: ast.expr
    value: ast.expr | None = None
    owner: bool = False
    infinite: bool = False
    guard: Guard | None = None
    shape: Shape | None = None
    scores: Shape | None = None


@dataclass(frozen=True)
class Guard:
    """The condition under which what `name` stands for is changed; otherwise it stays what it is."""

    test: ast.expr
    name: str


@dataclass(frozen=True)
class Scale:
    """A number that the scores are multiplied with or divided by, of which `root` takes the square root first."""

    sign: Literal["*", "/"]
    number: ast.expr
    root: bool = False


def not_none(test: ast.expr) -> str | None:
    """`mask` for `mask is not None`."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
        none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        return dotted(test.left) if none else None
    return None
