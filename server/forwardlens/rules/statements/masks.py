"""Tensors that a loop fills with a mask, where a comparison makes the same tensor at once."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from forwardlens.rules.evidence import Sites
from forwardlens.rules.loops import Loop, leading_shape
from forwardlens.rules.operations import is_torch_function
from forwardlens.rules.statements.made import made_beside
from forwardlens.source.tree import dotted, integer, walk

_MADE_OF = {"zeros": False, "new_zeros": False, "ones": True, "new_ones": True}


@dataclass(frozen=True)
class MadeMask:
    """A tensor that starts as all zeros or ones and is set the other way where a comparison holds.

    `sizes` are the texts of its lengths, `device` and `kind` those of its device and dtype, empty where it is made
    with the defaults. With `opposite` the comparison tells where it stays as it was made.
    """

    name: str
    statement: ast.Assign
    sizes: tuple[str, ...]
    device: str
    kind: str
    opposite: bool

    def size(self, axis: int) -> str:
        return self.sizes[axis]

    def finished(self, compared: str, bare: bool) -> str:
        """The text of the whole tensor."""
        text = f"~({compared})" if self.opposite else compared
        if self.kind.endswith("torch.bool"):
            return text
        return f"({text}).to({self.kind})" if bare or self.opposite else f"{text}.to({self.kind})"


def made_mask(sites: Sites, loop: Loop, name: str, fill: str) -> MadeMask | None:
    """How `name` is made right before a loop that sets some of its elements to `fill`.

    None unless it is `torch.zeros` or `torch.ones` of a written size and dtype, with `fill` the other of the two.
    """
    tree = sites.tree
    made = made_beside(sites, loop, name)
    ones = None if made is None else _MADE_OF.get(made.func.attr)
    if made is None or ones is None or fill not in ({"False", "0", "0.0"} if ones else {"True", "1", "1.0"}):
        return None
    call, func = made.call, made.func
    options = {k.arg: tree.text(k.value) for k in call.keywords}
    sizes = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], (ast.Tuple, ast.List)) else call.args
    texts = _sizes_of(sites, sizes)
    receiver = None if is_torch_function(tree.module, func) else tree.text(func.value)
    kind = options.pop("dtype", f"{receiver}.dtype" if receiver is not None else "")
    device = options.pop("device", f"{receiver}.device" if receiver is not None else "")
    if options or not kind or texts is None or not _is_repeatable_size(call):
        return None
    return MadeMask(name, made.statement, texts, device, kind, opposite=ones)


def _sizes_of(sites: Sites, sizes: Sequence[ast.expr]) -> tuple[str, ...] | None:
    """The texts of a new tensor's two lengths, also of `x.shape` and `x.shape[:2]`."""
    text = sites.tree.text
    if len(sizes) == 1:
        base = leading_shape(sizes[0])
        cut = sizes[0].slice if isinstance(sizes[0], ast.Subscript) else None
        if base is None or not isinstance(cut, ast.Slice) or integer(cut.upper) != 2:
            return None
        return tuple(f"{text(base)}.size({axis})" for axis in range(2))
    return tuple(text(size) for size in sizes) if len(sizes) == 2 else None


def _is_repeatable_size(call: ast.Call) -> bool:
    """Whether a size may be written again: nothing in it is computed by a call other than of a tensor's lengths."""
    calls = [n for part in (*call.args, *call.keywords) for n in walk(part) if isinstance(n, ast.Call)]
    return all(
        (isinstance(c.func, ast.Attribute) and c.func.attr in {"size", "numel", "dim"}) or dotted(c.func) == "len"
        for c in calls
    )
