"""How a tensor is made that a loop fills."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from forwardlens.rules.evidence import Sites
from forwardlens.rules.loops import Loop
from forwardlens.source.dataflow import definition, names_read
from forwardlens.source.rewrite import stands_alone
from forwardlens.source.tree import walk

_MAKING = frozenset(
    "zeros ones empty full zeros_like ones_like empty_like full_like new_zeros new_ones new_empty new_full".split()
)


@dataclass(frozen=True)
class Made:
    """The statement that makes a tensor, the call in it and its function, and where the loop has the tensor's name."""

    statement: ast.Assign
    call: ast.Call
    func: ast.Attribute
    use: ast.Name


def made_beside(sites: Sites, loop: Loop, name: str) -> Made | None:
    """How `name` is made in front of a loop that has it in one place, where nothing reads it in between."""
    tree, node = sites.tree, loop.node
    start = definition(tree, loop.function, name)
    block = tree.block(node) if isinstance(node, ast.stmt) else []
    if start is None or start not in block or not isinstance(node, ast.stmt) or not stands_alone(tree, start):
        return None
    call = start.value
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr not in _MAKING:
        return None
    uses = [n for n in walk(node) if isinstance(n, ast.Name) and n.id == name]
    between = block[block.index(start) + 1 : block.index(node)]
    if block.index(start) > block.index(node) or any(name in names_read(s) for s in between) or len(uses) != 1:
        return None
    return Made(start, call, call.func, uses[0])
