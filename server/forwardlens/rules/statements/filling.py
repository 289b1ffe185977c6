"""Tensors that a loop fills: made of all rounds' values at once instead."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from forwardlens.rules.batched import meeting, moves, wrapped
from forwardlens.rules.evidence import Sites
from forwardlens.rules.loops import Loop
from forwardlens.rules.statements.made import made_beside
from forwardlens.rules.statements.work import Filled
from forwardlens.source.dataflow import names_read
from forwardlens.source.tree import dotted, integer


def filled_at_once(
    sites: Sites, loop: Loop, written: Sequence[tuple[str, str]], filled: Filled
) -> tuple[ast.Assign, str] | None:
    """The statement that makes a tensor to be filled, and the line that makes it of the rounds' values instead.

    None unless the loop gives every element of it a value and nothing else sees it before. `written` is the text and
    the place of every slice that the loop writes.
    """
    tree, name = sites.tree, filled.name
    made = made_beside(sites, loop, name)
    if made is None or [place for _, place in written].count(name) != 1:
        return None
    target = tree.parent(made.use) or made.use
    op = sites.op(target, "aten::copy_")
    if op is None or op.shape_variants != len(op.variants) or any(len(v) < 2 or v[0] != v[1] for v in op.variants):
        return None
    write = tree.parent(target)
    if isinstance(write, ast.Assign) and _may_be_whole_numbers(write.value, loop):
        return None
    value, region = filled.value, filled.region
    if value.round_rank != region.round_rank or None in value.slots or None in value.loops:
        return None
    text = meeting(value, region)
    atom = value.atom or text != value.text
    if value.view:
        text, atom = f"{wrapped(text, atom)}.clone()", True
    kind = next((k for k in made.call.keywords if k.arg == "dtype"), None)
    if kind is None and len({*op.dtypes[:2]}) > 1:
        # Each write converted the values to the kind of number that the tensor has.
        return None
    if kind is not None:
        text, atom = f"{wrapped(text, atom)}.to({tree.text(kind.value)})", True
    if moves(text):
        text = f"{wrapped(text, atom)}.contiguous()"
    return made.statement, f"{name} = {text}"


# Results that are booleans or whole numbers, whatever the operands are.
_WHOLE = frozenset(
    """argmax argmin long int bool any all count_nonzero nonzero bincount logical_and logical_or logical_not
    logical_xor isnan isinf isfinite""".split()
)
# Results of the kind of number of their first operand.
_KEEPING = frozenset(
    """sum amax amin max min abs neg clamp view reshape flatten unsqueeze squeeze transpose permute expand cumsum
    gather index_select stack cat masked_fill clone contiguous square""".split()
)


def _may_be_whole_numbers(node: ast.expr, loop: Loop) -> bool:
    """Whether a value may have another kind of number than a tensor that is made without saying which."""
    match node:
        case ast.Compare():
            return True
        case ast.Name():
            values = [s.value for s in loop.body if isinstance(s, ast.Assign) and dotted(s.targets[0]) == node.id]
            return any(_may_be_whole_numbers(v, loop) for v in values if names_read(v) != frozenset({node.id}))
        case ast.BinOp(op=ast.BitAnd() | ast.BitOr() | ast.BitXor()):
            return True
        case ast.BinOp(op=ast.Div()):
            return False
        case ast.BinOp():
            return all(
                _may_be_whole_numbers(side, loop) or integer(side) is not None for side in (node.left, node.right)
            )
        case ast.UnaryOp():
            return isinstance(node.op, ast.Invert) or _may_be_whole_numbers(node.operand, loop)
        case ast.Subscript():
            return _may_be_whole_numbers(node.value, loop)
        case ast.Call(func=ast.Attribute(attr=name, value=receiver)):
            if name in _WHOLE:
                return True
            operand = node.args[0] if node.args and dotted(receiver) in {"torch", "F"} else receiver
            return name in _KEEPING and _may_be_whole_numbers(operand, loop)
        case _:
            return False
