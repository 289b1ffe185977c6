"""What is known while the statements of a round are worked through, and the lines that stand for all rounds."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value
from forwardlens.rules.evidence import Sites
from forwardlens.rules.lifting.lifter import Lifter
from forwardlens.rules.loops import Loop
from forwardlens.rules.statements.masks import MadeMask
from forwardlens.source.tree import dotted

INPLACE = frozenset("masked_fill_ zero_ fill_ copy_ add_ sub_ mul_ div_ clamp_ relu_ neg_".split())


@dataclass(frozen=True)
class Appended:
    """A list outside the loops that every round of theirs, the outermost first, adds `value` to."""

    name: str
    value: Batched
    receiver: ast.Name
    statement: ast.stmt
    loops: tuple[Loop, ...]


@dataclass(frozen=True)
class Filled:
    """A statement that writes `value` to all of the tensor `name`, and nothing else of the loop does."""

    name: str
    value: Batched
    region: Batched


class Work(ABC):
    """The lines that stand for all rounds of a loop so far, and what was seen on the way to them.

    A line of several rows has its rows separated by a line feed and indented by `unit`.
    """

    def __init__(self, sites: Sites, loop: Loop, unit: str, lifter: Lifter) -> None:
        self.sites = sites
        self.loop = loop
        self.unit = unit
        self.lifter = lifter
        self.lines: list[str] = []
        self.appended: list[Appended] = []
        # Text and place of every slice that the loop writes; the text is a name where the loop gives the slice.
        self.written: list[tuple[str, str]] = []
        # What is written to what, with the line that does it and the loops around it.
        self.writes: list[tuple[str, Lifter, tuple[Value, Batched]]] = []
        # Writes by `=` of whole tensors, by their line.
        self.filled: dict[str, Filled] = {}
        # Tensors that are made of a comparison instead of being made and then filled, by their line.
        self.made: dict[str, MadeMask] = {}
        # Names that the rounds add to.
        self.totals: set[str] = set()
        # Names that a round gives a value to more than once.
        self.rebound: set[str] = set()
        # Lists that a round of an outer loop starts, for an inner one to fill, and sums likewise.
        self.started: set[str] = set()
        self.loops: list[Loop] = [loop]
        self.bound: set[str] = {*self.lifter.bound}

    @abstractmethod
    def block(self, statements: Sequence[ast.stmt]) -> list[tuple[ast.stmt, list[str]]]:
        """The lines of each statement."""

    def bind(self, name: str, value: ast.expr) -> None:
        """Give a name of the round its value, on a line of its own unless it is a view."""
        self.bind_value(name, self.lifter.lift(value))

    def bind_value(self, name: str, lifted: Value) -> None:
        """The same for what is known of the value already."""
        lifter = self.lifter
        if any(name == loop.index for loop in lifter.loops) or name in self.totals:
            raise RefusedError(f"`{name}` is bound twice in a round")
        self.forget(name)
        if isinstance(lifted, Batched) and lifted.view:
            # Another name for the same memory: what is written to one is read from the other.
            lifter.values[name] = lifted
            return
        self.lines.append(f"{name} = {lifted.text}")
        lifter.lengths.name(name, lifted.text)
        lifter.values[name] = (
            replace(lifted, text=name, atom=True, cut=None)
            if isinstance(lifted, Batched)
            else Fixed(name, lifted.rank, atom=True)
        )

    def forget(self, name: str) -> None:
        """Refuse to bind a name again that another one still is a view of."""
        if name not in self.lifter.values:
            return
        self.rebound.add(name)
        for other, value in self.lifter.values.items():
            if other != name and re.search(rf"\b{re.escape(name)}\b", value.text):
                raise RefusedError(f"`{name}` is bound again while `{other}` is a view of it")

    def known(self, value: Value, node: ast.AST) -> Value:
        """A fixed value with the rank that the run saw in it as the second operand of `node`."""
        if not isinstance(value, Fixed) or value.rank is not None:
            return value
        cost = self.sites.cost(node)
        op = next((o for o in cost.ops if o.outermost and len(o.shapes) > 1), None) if cost is not None else None
        return value if op is None else replace(value, rank=len(op.shapes[1]))

    def varies(self, node: ast.AST) -> bool:
        return self.lifter.varies(node)

    def text(self, node: ast.expr | ast.stmt) -> str:
        return self.sites.tree.text(node)


def is_empty(value: ast.expr) -> bool:
    """`[]` and `list()`."""
    if isinstance(value, ast.Call):
        return dotted(value.func) == "list" and not value.args
    return isinstance(value, ast.List) and not value.elts
