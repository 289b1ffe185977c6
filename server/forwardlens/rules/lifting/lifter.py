"""Which rule an expression of a round is lifted by."""

from __future__ import annotations

import ast
from dataclasses import replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, wrapped
from forwardlens.rules.evidence import Sites
from forwardlens.rules.heads import size_expression
from forwardlens.rules.lifting.calls import call
from forwardlens.rules.lifting.dimensions import matrix_product
from forwardlens.rules.lifting.elements import element, paired_element
from forwardlens.rules.lifting.indexing import subscript
from forwardlens.rules.lifting.operators import binary, compare, unary
from forwardlens.rules.lifting.scope import Scope
from forwardlens.rules.loops import Loop
from forwardlens.rules.reducing import PAIRED
from forwardlens.rules.windows import Lengths
from forwardlens.source.dataflow import METADATA, names_bound
from forwardlens.source.tree import integer


class Lifter(Scope):
    """Lifts the expressions of a round."""

    def lift(self, node: ast.expr) -> Value:
        if isinstance(node, ast.Name):
            return self._name(node)
        if not self.varies(node):
            return self._fixed(node)
        size = self._size(node)
        if size is not None:
            return size
        paired = _part_of_pair(node)
        if paired is not None:
            return call(self, *paired)
        zipped = self._zipped_part(node)
        if zipped is not None:
            return zipped
        match node:
            case ast.BinOp(op=ast.MatMult()):
                return matrix_product(self, node, (node.left, node.right))
            case ast.BinOp():
                return binary(self, node)
            case ast.Compare():
                return compare(self, node)
            case ast.UnaryOp():
                return unary(self, node)
            case ast.Call():
                return call(self, node)
            case ast.Subscript():
                return subscript(self, node)
            case ast.Attribute():
                return self._attribute(node)
            case ast.NamedExpr() if node.target.id in self.values:
                return self.values[node.target.id]
            case _:
                raise RefusedError(f"`{self.text(node)}` has no form for all rounds at once")

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.values:
            return self.values[node.id]
        name = self.own_name(node.id)
        if name in self.counters:
            raise RefusedError(f"`{node.id}` is used as a number")
        for depth, loop in enumerate(self.loops):
            if name in loop.elements:
                return element(self, depth, name)
            if loop.pairs is not None and loop.pairs.of is not None and name in loop.pairs.names:
                return paired_element(self, depth, name, loop.pairs.of)
        if name in self.variables:
            raise RefusedError(f"`{node.id}` is used as a number")
        if node.id in self.bound:
            raise RefusedError(f"`{node.id}` carries a value from one round to the next")
        return Fixed(name, atom=True)

    def _zipped_part(self, node: ast.expr) -> Batched | None:
        """`pair[0]` where `pair` is all that a `zip` gives in a round."""
        if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name) or node.value.id in self.values:
            return None
        part = f"{self.own_name(node.value.id)}[{integer(node.slice)}]"
        found = (depth for depth, loop in enumerate(self.loops) if part in loop.elements)
        depth = next(found, None)
        return None if depth is None else element(self, depth, part)

    def _fixed(self, node: ast.expr) -> Fixed:
        self.require_pure(node)
        atom = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant))
        return Fixed(self.text(node), 0 if _is_number(node) else None, atom)

    def _size(self, node: ast.expr) -> Fixed | None:
        """`row.size(0)`: how long a dimension of the round's value is, which is the same in every round."""
        asked = size_expression(node)
        if asked is None or not self.varies(asked[0]):
            return None
        value, axis = self.lift(asked[0]), asked[1]
        if isinstance(value, Fixed) or not -value.round_rank <= axis < value.round_rank:
            raise RefusedError(f"`{self.text(node)}` has no form for all rounds at once")
        slot = value.slots[axis]
        if slot is None:
            return Fixed("1", 0, atom=True)
        whole = value.cut is not None and value.cut.slices[slot] == ":"
        stem = wrapped(value.cut.stem, value.cut.atom) if value.cut and whole else wrapped(value.text, value.atom)
        return Fixed(f"{stem}.size({slot})", 0, atom=True)

    def _attribute(self, node: ast.Attribute) -> Value:
        value = self.lift(node.value)
        if isinstance(value, Batched) and node.attr in {"dtype", "device"}:
            return Fixed(f"{wrapped(value.text, value.atom)}.{node.attr}", 0, atom=True)
        if isinstance(value, Fixed) or node.attr in METADATA or node.attr != "T" or value.round_rank != 2:
            raise RefusedError(f"`{self.text(node)}` has no form for all rounds at once")
        return replace(value, slots=value.slots[::-1])


def _is_number(node: ast.expr) -> bool:
    """`2`, `-0.5`."""
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _part_of_pair(node: ast.expr) -> tuple[ast.Call, str] | None:
    """The call in `row.max(dim=0).values` and `torch.min(row, 1)[0]`, with what takes its part.

    Which of equal elements an index is of, `median` leaves open.
    """
    if not isinstance(node, (ast.Attribute, ast.Subscript)) or not isinstance(node.value, ast.Call):
        return None
    name = node.value.func.attr if isinstance(node.value.func, ast.Attribute) else None
    which = node.attr if isinstance(node, ast.Attribute) else integer(node.slice)
    if name not in PAIRED or which not in {"values", 0, *(() if name == "median" else ("indices", 1))}:
        return None
    return node.value, f".{which}" if isinstance(which, str) else f"[{which}]"


def lifter_for(sites: Sites, loop: Loop, lengths: Lengths | None = None, *, in_evaluation: bool = False) -> Lifter:
    """A lifter at the start of a round: nothing that the round binds has a value yet."""
    bound = frozenset(name for statement in loop.body for name in names_bound(statement))
    own = bound - loop.variables if not bound & loop.variables else bound
    return Lifter(sites, (loop,), bound=own, lengths=lengths or Lengths(), in_evaluation=in_evaluation)
