"""Products of batches of matrices, in any spelling, and what brings their operands into the order of attention."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

from forwardlens.rules.evidence import Sites
from forwardlens.rules.operations import is_torch_function, torch_function
from forwardlens.source.tree import integer

_BATCH = "AB"
_ELLIPSIS = "..."
_MATRIX = {"matmul", "bmm", "baddbmm"}


@dataclass(frozen=True)
class Product:
    """Two operands with a letter for each dimension of theirs and of the result; no letters where the run saw
    operands whose batches differ.

    `baddbmm` also adds a third one, times `beta`, to the product times `alpha`.
    """

    left: ast.expr
    right: ast.expr
    letters: tuple[str, str, str] | None
    added: ast.expr | None = None
    beta: ast.expr | None = None
    alpha: ast.expr | None = None

    def ranked(self, rank: int) -> tuple[str, str, str] | None:
        """The letters where the result has `rank` dimensions: those that an ellipsis stands for are filled in."""
        if self.letters is None:
            return None
        missing = rank - len(self.letters[2].replace(_ELLIPSIS, ""))
        if not 0 <= missing <= len(_BATCH):
            return None
        first, second, result = (part.replace(_ELLIPSIS, _BATCH[:missing]) for part in self.letters)
        once = all(len(set(part)) == len(part) for part in (first, second, result))
        return (first, second, result) if once else None


def product_of(sites: Sites, node: ast.AST) -> Product | None:
    """The product that `node` is, if it ran."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return Product(node.left, node.right, _matrix_letters(sites, node, 0)) if _ran(sites, node) else None
    if not isinstance(node, ast.Call):
        return None
    name = torch_function(sites.tree.module, node.func)
    if name == "einsum" or sites.op(node, "aten::einsum") is not None:
        return _einsum(node)
    if name is not None or not isinstance(node.func, ast.Attribute):
        given = node.args
    else:
        name, given = node.func.attr, [node.func.value, *node.args]
    if name not in _MATRIX or not _ran(sites, node):
        return None
    if name == "baddbmm":
        if len(given) != 3 or any(k.arg not in {"beta", "alpha"} for k in node.keywords):
            return None
        factors = {k.arg: k.value for k in node.keywords}
        letters = _matrix_letters(sites, node, 1)
        return Product(given[1], given[2], letters, given[0], factors.get("beta"), factors.get("alpha"))
    if len(given) != 2 or node.keywords:
        return None
    return Product(given[0], given[1], _matrix_letters(sites, node, 0))


def _ran(sites: Sites, node: ast.expr) -> bool:
    return sites.op(node, *(f"aten::{name}" for name in _MATRIX)) is not None


def _matrix_letters(sites: Sites, node: ast.expr, first: int) -> tuple[str, str, str] | None:
    op = sites.op(node, *(f"aten::{name}" for name in _MATRIX))
    shapes = op.shapes[first : first + 2] if op is not None else ()
    if len(shapes) < 2 or len(shapes[0]) not in {3, 4} or len(shapes[0]) != len(shapes[1]):
        return None
    if shapes[0][:-2] != shapes[1][:-2]:
        return None
    batch = _BATCH[: len(shapes[0]) - 2]
    return f"{batch}ij", f"{batch}jk", f"{batch}ik"


def _einsum(call: ast.Call) -> Product | None:
    """`einsum("...", a, b)`, the operands as a list too; einops puts the equation last and words for letters."""
    if call.keywords or any(isinstance(arg, ast.Starred) for arg in call.args):
        return None
    if len(call.args) == 2 and isinstance(call.args[1], (ast.List, ast.Tuple)):
        given = [call.args[0], *call.args[1].elts]
    else:
        given = call.args
    if len(given) != 3:
        return None
    texts = [arg.value if isinstance(arg, ast.Constant) and isinstance(arg.value, str) else None for arg in given]
    if texts[0] is not None:
        equation, left, right = texts[0].replace(" ", ""), given[1], given[2]
    elif texts[2] is not None:
        equation, left, right = _by_letters(texts[2]), given[0], given[1]
    else:
        return None
    part = r"((?:\.\.\.)?[a-zA-Z]+)"
    found = re.fullmatch(f"{part},{part}->{part}", equation)
    return None if found is None else Product(left, right, (found[1], found[2], found[3]))


def _by_letters(equation: str) -> str:
    """`b n d` for `batch tokens depth`."""
    words = list(dict.fromkeys(re.findall(r"\w+", equation)))
    if len(words) > 20:
        return ""
    letters = {word: chr(ord("a") + number) for number, word in enumerate(words)}
    return re.sub(r"\w+", lambda found: letters[found[0]], equation).replace(" ", "")


def arranged(sites: Sites, node: ast.expr, letters: str, wanted: str) -> str:
    """The text of `node` with its dimensions in another order."""
    if letters != wanted:
        node, letters = untransposed(sites, node, letters)
    return sites.tree.text(node) if letters == wanted else f"{sites.tree.atom(node)}{moved(letters, wanted)}"


def moved(letters: str, wanted: str) -> str:
    """The method call that brings dimensions into another order, with its dot; nothing where that is theirs."""
    others = [n for n, (one, other) in enumerate(zip(letters, wanted, strict=True)) if one != other]
    if not others:
        return ""
    if len(others) == 2:
        last = others == [len(letters) - 2, len(letters) - 1]
        return ".transpose(-2, -1)" if last else f".transpose({others[0]}, {others[1]})"
    return f".permute({', '.join(str(letters.index(letter)) for letter in wanted)})"


def transposition(sites: Sites, node: ast.expr) -> ast.expr | None:
    """What a call that only moves dimensions is given."""
    if isinstance(node, ast.Attribute):
        return node.value if node.attr == "mT" else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    if node.func.attr not in {"transpose", "swapaxes", "swapdims", "permute"}:
        return None
    function = is_torch_function(sites.tree.module, node.func)
    return (node.args[0] if node.args else None) if function else node.func.value


def untransposed(sites: Sites, node: ast.expr, letters: str) -> tuple[ast.expr, str]:
    """What a transposition in any of its spellings was made of, a copy of it too, with the letters of that."""
    inner = node
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "contiguous":
        inner = inner.func.value
    if isinstance(inner, ast.Attribute) and inner.attr == "mT":
        return inner.value, f"{letters[:-2]}{letters[-1]}{letters[-2]}"
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute) or inner.keywords:
        return node, letters
    function = is_torch_function(sites.tree.module, inner.func)
    base, rest = (inner.args[0], inner.args[1:]) if function and inner.args else (inner.func.value, inner.args)
    if len(rest) == 1 and isinstance(rest[0], (ast.Tuple, ast.List)):
        rest = rest[0].elts
    rank = len(letters)
    axes = [axis % rank for axis in (integer(arg) for arg in rest) if axis is not None and -rank <= axis < rank]
    if len(axes) != len(rest):
        return node, letters
    order = list(range(rank))
    if inner.func.attr in {"transpose", "swapaxes", "swapdims"} and len(axes) == 2:
        order[axes[0]], order[axes[1]] = axes[1], axes[0]
    elif inner.func.attr == "permute" and sorted(axes) == order:
        order = axes
    else:
        return node, letters
    return base, "".join(letters[order.index(n)] for n in range(rank))
