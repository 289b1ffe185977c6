"""Attention spelled out as matmul, softmax, matmul."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from forwardlens.model import Fix, Shape
from forwardlens.rules.constants import attribute_value, is_number
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of
from forwardlens.rules.operations import functional_name, is_repeatable, is_torch_function, torch_name
from forwardlens.source.dataflow import definition, names_bound, names_read
from forwardlens.source.rewrite import checked, replace_node, replace_statements, stands_alone
from forwardlens.source.tree import argument, dotted, integer, walk

# A score at or below this leaves no weight behind: exp of it is zero in every dtype.
_HIDDEN = -1e4
# A longer call gets its arguments on a line of their own, and each its own where that line is longest.
_WIDTH, _LONGEST = 100, 120


class ManualAttention(Rule):
    """## What it does
    Finds attention written out as a product of queries and keys, a scale, a mask, `softmax`, dropout and a product
    with the values, where the weights serve for nothing else.

    ## Why it costs
    Every step reads and writes a tensor of length times length for each head, which grows with the square of the
    length. `scaled_dot_product_attention` computes the same in blocks that stay in the cache, and never holds the
    whole of it.

    ## When to ignore it
    When the weights are returned, kept or changed in another way: that is not reported. Short sequences gain little.

    ## Fix safety
    The fix is offered as safe if scale, masks and dropout have an exact counterpart: the scale is a number, hidden
    scores are filled with a very low number or -inf, and dropout only happens in training. Results differ in the last
    digits, because sums run in another order. A row that hides everything has other gradients, and zeros where -inf
    gave `nan`; a hidden score that is `nan` itself stays so. Active dropout draws other random numbers, so that fix is
    offered with this as its reason.
    """

    name: ClassVar[str] = "manual-attention"
    summary: ClassVar[str] = "Attention spelled out in several operators"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "causal-with-a-buffer",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=16, heads=2, longest=64):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.dp = nn.Dropout(0.1)
        self.register_buffer("keep", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = att.masked_fill(self.keep[:, :, :n, :n] == 0, float("-inf"))
        att = F.softmax(att, dim=-1)  #!
        att = self.dp(att)
        y = att @ v
        return y.transpose(1, 2).reshape(b, n, c)


def build():
    return Attention().eval(), (torch.randn(1, 32, 16),)
""",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, width=16, heads=2, longest=64):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.dp = nn.Dropout(0.1)
        self.register_buffer("keep", torch.tril(torch.ones(longest, longest)).view(1, 1, longest, longest))

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dp.p if self.dp.training else 0.0, is_causal=True, scale=1.0 / math.sqrt(k.size(-1))
        )
        return y.transpose(1, 2).reshape(b, n, c)


def build():
    return Attention().eval(), (torch.randn(1, 32, 16),)
""",
        ),
        Example(
            "optional-padding-mask",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v, pad=None):
        scores = torch.matmul(q, k.transpose(2, 3)) / q.size(-1) ** 0.5
        if pad is not None:
            scores = scores.masked_fill(pad, -1e9)
        weights = torch.softmax(scores, dim=-1)  #!
        return torch.matmul(weights, v)


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.rand(2, 1, 1, 96) < 0.2)
""",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v, pad=None):
        return nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=None if pad is None else torch.where(pad, torch.finfo(q.dtype).min / 2, q.new_zeros(()))
        )


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.rand(2, 1, 1, 96) < 0.2)
""",
        ),
        Example(
            "padding-filled-in-place",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def forward(self, query, key, value, mask):
        scores = query @ key.transpose(-1, -2).contiguous() / math.sqrt(query.size(-1))
        visible = mask > 0
        scores[:, :, :, : mask.size(1)].masked_fill_(~visible[:, None, None, :], -1e9)
        return torch.softmax(scores, dim=-1) @ value  #!


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, (torch.rand(2, 96) < 0.8).long())
""",
            """\
import math

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def forward(self, query, key, value, mask):
        visible = mask > 0
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=torch.where(visible[:, None, None, :], query.new_zeros(()), torch.finfo(query.dtype).min / 2),
        )


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, (torch.rand(2, 96) < 0.8).long())
""",
        ),
        Example(
            "part-of-the-scores-hidden",
            """\
import math

import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, query, key, value, mask):
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1))
        scores[:, :, :, : mask.size(1)].masked_fill_(mask[:, None, None, :], -1e9)
        return torch.softmax(scores, dim=-1) @ value


def build():
    q, k, v = (torch.randn(2, 4, 96, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.rand(2, 48) < 0.2)
""",
        ),
        Example(
            "one-head-with-added-mask",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 32**-0.5

    def forward(self, q, k, v, bias):
        scores = torch.bmm(q, k.transpose(1, 2)) * self.scale + bias
        return torch.bmm(scores.softmax(-1), v)  #!


def build():
    q, k, v = (torch.randn(6, 128, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.randn(128, 128))
""",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 32**-0.5

    def forward(self, q, k, v, bias):
        return nn.functional.scaled_dot_product_attention(
            q.unsqueeze(1), k.unsqueeze(1), v.unsqueeze(1), attn_mask=bias, scale=self.scale
        ).squeeze(1)


def build():
    q, k, v = (torch.randn(6, 128, 32) for _ in range(3))
    return Attention(), (q, k, v, torch.randn(128, 128))
""",
        ),
        Example(
            "active-dropout",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def forward(self, q, k, v):
        scores = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        weights = self.drop(scores.softmax(dim=-1))  #!
        return weights @ v


def build():
    return Attention(), tuple(torch.randn(2, 4, 64, 32) for _ in range(3))
""",
        ),
        Example(
            "weights-returned",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v):
        weights = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(dim=-1)
        return weights @ v, weights


def build():
    return Attention(), tuple(torch.randn(2, 4, 64, 32) for _ in range(3))
""",
        ),
        Example(
            "weights-changed",
            """\
import torch
from torch import nn


class Attention(nn.Module):
    def forward(self, q, k, v):
        weights = (q @ k.transpose(-1, -2) / q.size(-1) ** 0.5).softmax(dim=-1)
        weights = weights.pow(2)
        return weights @ v


def build():
    return Attention(), tuple(torch.randn(2, 4, 64, 32) for _ in range(3))
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node in walk(sites.tree.module):
            if isinstance(node, (ast.BinOp, ast.Call)) and _operands(sites, node) is not None:
                match = _match(sites, node)
                if match is not None:
                    yield match


class _OtherError(Exception):
    """No attention, or one whose weights are needed."""


class _RefusedError(Exception):
    """Attention without an exact counterpart. The message says why."""


@dataclass
class _Mask:
    """`fill` hides the scores where it is true, `keep` where it is false, `add` is added to them.

    `owner` is the name in `value` that stands for the scores, whose dtype it asks for.
    """

    kind: Literal["fill", "keep", "add"]
    mask: ast.expr
    value: ast.expr | None = None
    owner: ast.Name | None = None
    infinite: bool = False
    guard: str | None = None
    rank: int | None = None


@dataclass
class _Chain:
    """What was met on the way from the weights back to queries and keys, last step first."""

    sites: Sites
    final: ast.stmt
    steps: list[ast.expr] = field(default_factory=list[ast.expr])
    statements: list[ast.stmt] = field(default_factory=list[ast.stmt])
    consumed: set[ast.Name] = field(default_factory=set[ast.Name])
    names: set[str] = field(default_factory=set[str])
    masks: list[_Mask] = field(default_factory=list[_Mask])
    scales: list[tuple[str, ast.expr]] = field(default_factory=list[tuple[str, ast.expr]])
    dropout: str | None = None
    random: bool = False
    softmax: ast.expr | None = None
    query: ast.expr | None = None
    key: str = ""
    swapped: bool = False
    shape: Shape = ()

    def copy(self) -> _Chain:
        other = copy.copy(self)
        for name in ("steps", "statements", "consumed", "names", "masks", "scales"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def take(self, other: _Chain) -> None:
        self.__dict__.update(other.__dict__)

    # -- the weights

    def weights(self, node: ast.expr, at: ast.stmt) -> None:
        if isinstance(node, ast.Name):
            value, statement, _ = self._bound(node, at)
            self.weights(value, statement)
            return
        if isinstance(node, ast.Call):
            inner = self._dropout(node)
            if inner is not None:
                self.steps.append(node)
                self.weights(inner, at)
                return
            inner = self._softmax(node)
            if inner is not None:
                self.softmax = node
                self.steps.append(node)
                self.scores(inner, at, None)
                return
        raise _OtherError

    def _dropout(self, call: ast.Call) -> ast.expr | None:
        tree, given = self.sites.tree, call.args
        leaf = (dotted(call.func) or "").split(".")[-1]
        if leaf == "dropout" and is_torch_function(tree.module, call.func) and given:
            p = argument(call, 1, "p")
            training = argument(call, 2, "training")
            if any(k.arg not in {"p", "training"} for k in call.keywords) or len(given) > 3:
                raise _RefusedError("the dropout has options that it does not know")
            rate = "0.5" if p is None else tree.text(p)
            self.dropout = rate if training is None else f"{rate} if {tree.text(training)} else 0.0"
        elif dotted(call.func) == f"self.{leaf}" and len(given) == 1 and not call.keywords:
            value = attribute_value(tree, call, leaf)
            if not isinstance(value, ast.Call) or (dotted(value.func) or "").split(".")[-1] != "Dropout":
                return None
            self.dropout = f"self.{leaf}.p if self.{leaf}.training else 0.0"
        else:
            return None
        cost = self.sites.cost(call)
        random = {"aten::native_dropout", "aten::bernoulli_"}
        self.random = self.random or (cost is not None and any(op.name in random for op in cost.ops))
        return given[0]

    def _softmax(self, call: ast.Call) -> ast.expr | None:
        op = self.sites.op(call, "aten::softmax")
        func = call.func
        if op is None or not op.shapes:
            return None
        rank = len(op.shapes[0])
        leaf = (dotted(func) or "").split(".")[-1]
        if is_torch_function(self.sites.tree.module, func):
            inner, axis = (call.args[0] if call.args else None), argument(call, 1, "dim")
        elif isinstance(func, ast.Attribute) and func.attr == "softmax" and call.args + call.keywords:
            inner, axis = func.value, argument(call, 0, "dim")
        elif isinstance(func, ast.Call) and (dotted(func.func) or "").endswith("nn.Softmax") and len(call.args) == 1:
            inner, axis = call.args[0], argument(func, 0, "dim")
        elif dotted(func) == f"self.{leaf}" and len(call.args) == 1:
            value = attribute_value(self.sites.tree, call, leaf)
            inner = call.args[0]
            axis = argument(value, 0, "dim") if isinstance(value, ast.Call) else None
        else:
            return None
        self.shape = op.shapes[0]
        if integer(axis) not in {-1, rank - 1} or rank not in {3, 4} or inner is None:
            raise _OtherError
        if any(k.arg not in {"dim", "input"} for k in call.keywords) or len(call.args) > 2:
            raise _RefusedError("the softmax runs in another dtype")
        return inner

    # -- the scores

    def scores(self, node: ast.expr, at: ast.stmt, guard: str | None) -> None:
        sites, tree = self.sites, self.sites.tree
        if isinstance(node, ast.Name):
            value, statement, guard = self._bound(node, at)
            self.scores(value, statement, guard)
            return
        operands = _operands(sites, node)
        if operands is not None and guard is None:
            self._product(node, *operands)
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)) and guard is None:
            self.steps.append(node)
            sign = "*" if isinstance(node.op, ast.Mult) else "/"
            if sign == "*" and is_number(tree, node.left):
                self.scales.append((sign, node.left))
                self.scores(node.right, at, None)
                return
            if not is_number(tree, node.right):
                trial = self.copy()
                trial.scores(node.left, at, None)
                raise _RefusedError(f"`{tree.text(node.right)}` is not known to be a number")
            self.scales.append((sign, node.right))
            self.scores(node.left, at, None)
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            self._added(node, at, guard)
            return
        if isinstance(node, ast.Call):
            self._filled(node, at, guard)
            return
        raise _OtherError

    def _added(self, node: ast.BinOp, at: ast.stmt, guard: str | None) -> None:
        if self.scales:
            raise _RefusedError("a mask is added before the scores are scaled")
        for inner, mask in ((node.left, node.right), (node.right, node.left)):
            trial = self.copy()
            trial.steps.append(node)
            shapes = self.sites.operands(node)
            rank = None if shapes is None else len(shapes[0 if mask is node.left else 1])
            trial.masks.append(_Mask("add", mask, guard=guard, rank=rank))
            try:
                trial.scores(inner, at, None)
            except _OtherError:
                continue
            self.take(trial)
            return
        raise _OtherError

    def _filled(self, call: ast.Call, at: ast.stmt, guard: str | None) -> None:
        tree, func = self.sites.tree, call.func
        if not isinstance(func, ast.Attribute):
            raise _OtherError
        function = is_torch_function(tree.module, func)
        if func.attr == "where" and function and len(call.args) == 3:
            inner, value = call.args[1], call.args[2]
        elif func.attr in {"masked_fill", "masked_fill_"} and not function and len(call.args) == 2:
            inner, value = self._filled_scores(call, func), call.args[1]
        else:
            raise _OtherError
        self.steps.append(call)
        infinite, owner = self._hides(value)
        if self.scales and not infinite:
            raise _RefusedError("scores are hidden before they are scaled")
        kind: Literal["fill", "keep"] = "keep" if func.attr == "where" else "fill"
        op = self.sites.op(call, f"aten::{func.attr}")
        position = 0 if kind == "keep" else 1
        rank = len(op.shapes[position]) if op is not None and len(op.shapes) > position else None
        self.masks.append(_Mask(kind, call.args[0], value, owner, infinite, guard, rank))
        self.scores(inner, at, None)

    def _filled_scores(self, call: ast.Call, func: ast.Attribute) -> ast.expr:
        """What is filled: `scores` too for `scores[:, :, :, :n]` that was all of them when it ran.

        Where it is not all of them, the mask is too short for the fused operator, which then raises.
        """
        op = self.sites.op(call, "aten::masked_fill_")
        base = func.value
        whole = op is not None and op.shapes[0] == self.shape and _sliced(base) is not None
        return base.value if whole and isinstance(base, ast.Subscript) else base

    def _hides(self, node: ast.expr) -> tuple[bool, ast.Name | None]:
        """Whether a value that hides scores is minus infinity, and the name whose dtype it asks for."""
        text = self.sites.tree.text(node).replace(" ", "").replace("'", '"')
        if text in {'float("-inf")', '-float("inf")', "-math.inf", "-torch.inf", "-np.inf"}:
            return True, None
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            number = node.operand.value
            if isinstance(number, (int, float)) and -number <= _HIDDEN:
                return False, None
        finfo = node.value if isinstance(node, ast.Attribute) and node.attr == "min" else None
        if isinstance(finfo, ast.Call) and (dotted(finfo.func) or "").endswith("finfo") and len(finfo.args) == 1:
            dtype = finfo.args[0]
            owner = dtype.value if isinstance(dtype, ast.Attribute) and dtype.attr == "dtype" else None
            if isinstance(owner, ast.Name):
                self.consumed.add(owner)
                return False, owner
            return False, None
        raise _RefusedError(f"`{self.sites.tree.text(node)}` is not known to hide a score")

    def _product(self, node: ast.expr, query: ast.expr, key: ast.expr) -> None:
        self.steps.append(node)
        self.query = query
        tree = self.sites.tree
        letters = _einsum(self.sites, node)
        if letters is not None:
            layout = _scores_layout(*letters)
            if layout is None:
                raise _RefusedError("its products are of another order")
            self.swapped = layout == "swapped"
            self.key = tree.text(key)
            return
        op = self.sites.op(node, "aten::matmul", "aten::bmm")
        if op is None or len(op.shapes) < 2:
            raise _OtherError
        first, second = op.shapes[:2]
        if len(first) not in {3, 4} or len(first) != len(second) or first[:-2] != second[:-2]:
            raise _RefusedError("queries and keys have other ranks than the fused operator takes")
        swapped = _transposed(self.sites, key, len(first))
        self.key = tree.text(swapped) if swapped is not None else f"{_atom(self.sites, key)}.transpose(-2, -1)"

    # -- names

    def _bound(self, name: ast.Name, at: ast.stmt) -> tuple[ast.expr, ast.stmt, str | None]:
        """What a name was last bound to, the statement that did it, and the name that must not be None for it."""
        tree = self.sites.tree
        self.consumed.add(name)
        self.names.add(name.id)
        block = tree.block(self.final)
        if at not in block:
            at = next(a for a in tree.ancestors(at) if a in block)  # pyright: ignore[reportAssignmentType]
        for earlier in reversed(block[: block.index(at)]):
            if name.id not in names_bound(earlier) and not _changes(earlier, name.id):
                continue
            step, guard = earlier, None
            if isinstance(earlier, ast.If):
                guard = _not_none(earlier)
                if guard is None or len(earlier.body) != 1 or earlier.orelse:
                    raise _OtherError
                step = earlier.body[0]
            self.statements.append(earlier)
            value = _value(step)
            if guard is not None:
                return value, step, guard
            return value, earlier, None
        raise _OtherError


def _value(step: ast.stmt) -> ast.expr:
    if isinstance(step, ast.Assign) and len(step.targets) == 1 and isinstance(step.targets[0], ast.Name):
        return step.value
    if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call):
        return step.value
    raise _OtherError


def _changes(statement: ast.stmt, name: str) -> bool:
    """`scores.masked_fill_(...)` as a statement of its own, also of a slice and under an `if`."""
    inner = statement.body[0] if isinstance(statement, ast.If) else statement
    call = inner.value if isinstance(inner, ast.Expr) else None
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "masked_fill_"
        and (dotted(call.func.value) == name or _sliced(call.func.value) == name)
    )


def _sliced(node: ast.expr) -> str | None:
    """`scores` for `scores[:, :, : n]`, a name from whose start on something is taken."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    starts = all(isinstance(i, ast.Slice) and i.lower is None and i.step is None for i in index_items(node))
    return node.value.id if starts else None


def _not_none(node: ast.If) -> str | None:
    """`mask` for `if mask is not None:`."""
    test = node.test
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
        none = isinstance(test.comparators[0], ast.Constant) and test.comparators[0].value is None
        return dotted(test.left) if none else None
    return None


def _operands(sites: Sites, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The two sides of a matrix product that ran."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    if _einsum(sites, node) is not None:
        return node.args[1], node.args[2]
    if node.func.attr not in {"matmul", "bmm"}:
        return None
    if is_torch_function(sites.tree.module, node.func):
        return (node.args[0], node.args[1]) if len(node.args) == 2 else None
    return (node.func.value, node.args[0]) if len(node.args) == 1 else None


def _einsum(sites: Sites, node: ast.expr) -> tuple[str, str, str] | None:
    """The letters of both operands and of the result of `torch.einsum("...,...->...", a, b)`."""
    if not isinstance(node, ast.Call) or len(node.args) != 3 or not is_torch_function(sites.tree.module, node.func):
        return None
    equation = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
    found = re.fullmatch(r"(\w+),(\w+)->(\w+)", equation.replace(" ", "")) if isinstance(equation, str) else None
    return (
        (found[1], found[2], found[3]) if found is not None and (dotted(node.func) or "").endswith("einsum") else None
    )


def _scores_layout(first: str, second: str, result: str) -> Literal["plain", "swapped"] | None:
    """How queries and keys lie: `bhqd,bhkd->bhqk`, or swapped as in `bqhd,bkhd->bhqk`."""
    batch, q, k, d = result[:-2], result[-2], result[-1], first[-1]
    if (first, second) == (f"{batch}{q}{d}", f"{batch}{k}{d}"):
        return "plain"
    swapped = len(batch) == 2 and (first, second) == (f"{batch[0]}{q}{batch[1]}{d}", f"{batch[0]}{k}{batch[1]}{d}")
    return "swapped" if swapped else None


def _values_layout(weights: str, value: str, result: str) -> tuple[bool, bool] | None:
    """Whether values and result are swapped, as in `bhqk,bkhd->bqhd`."""
    batch, q, k, d = weights[:-2], weights[-2], weights[-1], value[-1]
    plain = (f"{batch}{k}{d}", f"{batch}{q}{d}")
    swapped = (f"{batch[0]}{k}{batch[1]}{d}", f"{batch[0]}{q}{batch[1]}{d}") if len(batch) == 2 else plain
    if value not in {plain[0], swapped[0]} or result not in {plain[1], swapped[1]}:
        return None
    return value != plain[0], result != plain[1]


def _transposed(sites: Sites, node: ast.expr, rank: int) -> ast.expr | None:
    """`k` for `k.transpose(-2, -1)` in any of its spellings, a copy of it too."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "contiguous":
        node = node.func.value
    if isinstance(node, ast.Attribute) and node.attr == "mT":
        return node.value
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    function = is_torch_function(sites.tree.module, node.func)
    base, rest = (node.args[0], node.args[1:]) if function and node.args else (node.func.value, node.args)
    axes = [integer(a) for a in rest]
    if node.keywords or None in axes:
        return None
    positive = [axis % rank for axis in axes if axis is not None]
    if node.func.attr in {"transpose", "swapaxes"} and sorted(positive) == [rank - 2, rank - 1]:
        return base
    swapped = [*range(rank - 2), rank - 1, rank - 2]
    return base if node.func.attr == "permute" and positive == swapped else None


def _atom(sites: Sites, node: ast.expr) -> str:
    text = sites.tree.text(node)
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"


# -- the finding


def _match(sites: Sites, node: ast.expr) -> Match | None:
    operands = _operands(sites, node)
    final = sites.tree.statement(node)
    function = sites.tree.function(node)
    if operands is None or function is None:
        return None
    chain = _Chain(sites, final)
    obstacle: str | None = None
    try:
        chain.weights(operands[0], final)
        if not _only_reader(chain, function):
            return None
    except _OtherError:
        return None
    except _RefusedError as refused:
        obstacle = str(refused)
    if chain.softmax is None:
        return None
    fix: Fix | None = None
    if obstacle is None:
        fix, obstacle = _fix(chain, node, operands[1])
    elif not _weights_only_multiplied(chain, function):
        return None
    costs = [cost for step in (*chain.steps, node) if (cost := sites.cost(step)) is not None]
    share = sum(cost.share for cost in costs)
    shape = next(op.shapes[0] for op in (sites.op(chain.softmax, "aten::softmax"),) if op is not None)
    weights = " x ".join(str(size) for size in shape)
    message = (
        f"Attention in {len(chain.steps) + 1} operators writes its {weights} weights again and again, "
        f"{percent(share)} of the forward: `scaled_dot_product_attention` never holds all of them"
    )
    return Match(
        sites.source.span(chain.softmax),
        message if fix else f"{message}. No automatic fix: {obstacle}",
        share,
        {"operators": len(chain.steps) + 1, "length": shape[-1]},
        (),
        (fix,) if fix else (),
    )


def _only_reader(chain: _Chain, function: ast.AST) -> bool:
    """Whether nothing but the chain reads what the chain computes."""
    end = chain.final.end_lineno or chain.final.lineno
    rebinds = names_bound(chain.final)
    loops = any(chain.sites.tree.loops(chain.final))
    for read in walk(function):
        if not isinstance(read, ast.Name) or read.id not in chain.names or not isinstance(read.ctx, ast.Load):
            continue
        later = read.lineno > end and read.id in rebinds and not loops
        if read not in chain.consumed and not later:
            return False
    return True


def _weights_only_multiplied(chain: _Chain, function: ast.AST) -> bool:
    """For an attention that was not followed to its end: the names after the softmax are read by the chain alone."""
    weights = {n.id for n in chain.consumed}
    bound_after = {
        t.id
        for s in chain.statements
        if isinstance(s, ast.Assign) and chain.softmax in set(walk(s))
        for t in s.targets
        if isinstance(t, ast.Name)
    }
    reads = [
        n
        for n in walk(function)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id in weights & bound_after
    ]
    return all(n in chain.consumed for n in reads)


def _fix(chain: _Chain, node: ast.expr, value: ast.expr) -> tuple[Fix | None, str]:
    sites = chain.sites
    tree, source = sites.tree, sites.source
    torch, functional = torch_name(tree.module), functional_name(tree.module)
    if torch is None or functional is None or chain.query is None:
        return None, "torch is not imported by its name"
    if not all(stands_alone(tree, s) for s in chain.statements) or chain.final in chain.statements:
        return None, "its steps share lines with other code"
    if not _stable(chain):
        return None, "a name that it reads is bound again on the way"
    three = len(chain.shape) == 3
    letters = _einsum(sites, node)
    layout = (False, False) if letters is None else _values_layout(*letters)
    if layout is None or (three and (chain.swapped or any(layout))):
        return None, "its products are of another order"
    parts = [tree.text(chain.query), chain.key, tree.text(value)]
    if three or chain.swapped:
        parts[:2] = [_atom(sites, chain.query), chain.key]
    if three or layout[0]:
        parts[2] = _atom(sites, value)
    if three:
        parts = [f"{part}.unsqueeze(1)" for part in parts]
    if chain.swapped:
        parts[:2] = [f"{part}.transpose(1, 2)" for part in parts[:2]]
    if layout[0]:
        parts[2] += ".transpose(1, 2)"
    try:
        options = [*_dropout_option(chain), *_mask_options(chain, torch, three), *_scale_option(chain)]
    except _RefusedError as refused:
        return None, str(refused)
    inside = ", ".join([*parts, *options])
    tail = ".squeeze(1)" if three else ".transpose(1, 2)" if layout[1] else ""
    call = f"{functional}.scaled_dot_product_attention({inside}){tail}"
    if source.span(node).column + len(call) > _WIDTH:
        indent, end = source.indentation(tree.statement(node).lineno), source.newline
        step = "\t" if "\t" in indent else "    "
        if len(indent) + len(step) + len(inside) > _LONGEST:
            inside = f",{end}{indent}{step}".join([*parts, *options]) + ","
        call = f"{functional}.scaled_dot_product_attention({end}{indent}{step}{inside}{end}{indent}){tail}"
    edits = [replace_node(source, node, call)]
    edits += [replace_statements(tree, [s], []) for s in chain.statements]
    found = checked(source, edits)
    if found is None:
        return None, "the text around it does not allow it"
    title = "Use scaled_dot_product_attention"
    if chain.random:
        return Fix(title, "unsafe", found, "the dropout draws other random numbers than before"), ""
    return Fix(title, "safe", found), ""


def _stable(chain: _Chain) -> bool:
    """Whether everything that the new call reads still has, at the end, the value that it had on the way."""
    block = chain.sites.tree.block(chain.final)
    end = block.index(chain.final)
    for statement in chain.statements:
        after = [s for s in block[block.index(statement) : end] if s not in chain.statements]
        bound = {name for s in after for name in names_bound(s)}
        writes = any(_writes(node) for s in after for node in walk(s))
        if writes or bound & (names_read(statement) - chain.names):
            return False
    return True


def _writes(node: ast.AST) -> bool:
    """`x[...] = ...`, and methods such as `x.add_(...)`."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")


def _dropout_option(chain: _Chain) -> list[str]:
    return [f"dropout_p={chain.dropout}"] if chain.dropout is not None else []


def _scale_option(chain: _Chain) -> list[str]:
    """`scale=...`, unless it is the one that the operator takes by itself."""
    tree = chain.sites.tree
    assert chain.query is not None
    if not chain.scales:
        return ["scale=1.0"]
    if len(chain.scales) == 1:
        sign, number = chain.scales[0]
        text = tree.text(number)
        query = tree.text(chain.query)
        sizes = (f"{query}.size(-1)", f"{query}.shape[-1]")
        roots = {f"{size} ** 0.5" for size in sizes} | {f"math.sqrt({size})" for size in sizes}
        if sign == "/":
            return [] if text in roots else [f"scale=1 / {_operand(tree.text(number), number)}"]
        plain = isinstance(number, ast.BinOp) and f"{text}" in {f"{size} ** -0.5" for size in sizes}
        return [] if plain else [f"scale={text}"]
    product = "1"
    for sign, number in chain.scales:
        product += f" {sign} {_operand(tree.text(number), number)}"
    return [f"scale={product}"]


def _operand(text: str, node: ast.expr) -> str:
    power = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow)
    return f"({text})" if isinstance(node, (ast.BinOp, ast.UnaryOp)) and not power else text


# -- masks


def _mask_options(chain: _Chain, torch: str, three: bool) -> list[str]:
    masks = list(reversed(chain.masks))
    if not masks:
        return []
    if len(masks) == 1 and masks[0].guard is None and _is_causal(chain, masks[0]):
        return ["is_causal=True"]
    if len({mask.guard for mask in masks}) > 1:
        raise _RefusedError("its masks are optional one by one")
    if any(mask.kind == "add" for mask in masks[1:]):
        raise _RefusedError("a mask is added to scores that are hidden already")
    ranks = [mask.rank for mask in masks]
    text = _combined(chain, masks, torch)
    if three and 3 in ranks:
        text = f"{text if text.endswith((')', ']')) or text.isidentifier() else f'({text})'}.unsqueeze(1)"
    guard = masks[0].guard
    return [f"attn_mask={text if guard is None else f'None if {guard} is None else {text}'}"]


def _combined(chain: _Chain, masks: list[_Mask], torch: str) -> str:
    sites = chain.sites
    query = sites.tree.text(chain.query) if isinstance(chain.query, ast.Name) else None
    if all(mask.kind != "add" and mask.infinite for mask in masks):
        return " & ".join(_kept(sites, mask) for mask in masks)
    if masks[0].kind == "add":
        text, rest = sites.tree.text(masks[0].mask), masks[1:]
    else:
        text, rest = "0.0" if query is None else f"{query}.new_zeros(())", masks
    for mask in rest:
        given, keeps = mask.mask, mask.kind == "keep"
        if isinstance(given, ast.UnaryOp) and isinstance(given.op, ast.Invert):
            given, keeps = given.operand, not keeps
        value = _value_text(sites, mask, query)
        parts = (text, value) if keeps else (value, text)
        text = f"{torch}.where({sites.tree.text(given)}, {', '.join(parts)})"
    return text


def _value_text(sites: Sites, mask: _Mask, query: str | None) -> str:
    assert mask.value is not None
    # What is added must drown every score, so that a row that hides everything stays uniform. That is the least number
    # of the dtype, or rather half of it: kernels of a GPU multiply by log2(e), which would make it infinite.
    if query is not None and not mask.infinite:
        return f"{torch_name(sites.tree.module)}.finfo({query}.dtype).min / 2"
    if mask.owner is not None:
        raise _RefusedError("the dtype of the queries has no name")
    text = sites.tree.text(mask.value)
    return f"{text} / 2" if isinstance(mask.value, ast.Attribute) else text


def _kept(sites: Sites, mask: _Mask) -> str:
    """What a mask leaves visible."""
    node, tree = mask.mask, sites.tree
    if mask.kind == "keep":
        return tree.text(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return tree.text(node.operand)
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
        sign = "!=" if isinstance(node.ops[0], ast.Eq) else "=="
        return f"({tree.text(node.left)} {sign} {tree.text(node.comparators[0])})"
    return f"~{_atom(sites, node)}"


def _is_causal(chain: _Chain, mask: _Mask) -> bool:
    """Whether a mask certainly hides what comes later, and nothing else."""
    sites = chain.sites
    if mask.kind == "add" or chain.shape[-2] != chain.shape[-1]:
        return False
    node, hides = mask.mask, mask.kind == "fill"
    while True:
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
            node, hides = node.operand, not hides
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and integer(node.comparators[0]) in {0, 1}:
            kind = (type(node.ops[0]), integer(node.comparators[0]))
            if kind not in {(ast.Eq, 0), (ast.Eq, 1), (ast.NotEq, 0), (ast.Gt, 0)}:
                return False
            node, hides = node.left, hides if kind != (ast.Eq, 0) else not hides
        else:
            break
    triangle = _triangle(sites, node, 0)
    return triangle == ("triu", 1) if hides else triangle == ("tril", 0)


def _triangle(sites: Sites, node: ast.expr, depth: int) -> tuple[str, int] | None:
    """Which triangle of a square of ones an expression is, and from which diagonal on."""
    tree = sites.tree
    if depth > 8:
        return None
    if isinstance(node, ast.Name):
        function = tree.function(node)
        statement = definition(tree, function, node.id) if function is not None else None
        single = statement is not None and isinstance(statement.targets[0], ast.Name)
        return _triangle(sites, statement.value, depth + 1) if statement is not None and single else None
    if isinstance(node, ast.Attribute):
        value = attribute_value(tree, node, node.attr) if dotted(node) == f"self.{node.attr}" else None
        return _triangle(sites, value, depth + 1) if value is not None else None
    if isinstance(node, ast.Subscript):
        return _triangle(sites, node.value, depth + 1) if _cuts_square(sites, node) else None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    name = node.func.attr
    function = is_torch_function(tree.module, node.func)
    base = node.args[0] if function and node.args else node.func.value
    if name in {"tril", "triu"}:
        given = argument(node, 1 if function else 0, "diagonal")
        diagonal = 0 if given is None else integer(given)
        return (name, diagonal) if diagonal is not None and _ones(sites, base) else None
    if name in {"bool", "to", "type", "view", "reshape", "unsqueeze"} and not function:
        return _triangle(sites, base, depth + 1)
    return None


def _cuts_square(sites: Sites, node: ast.Subscript) -> bool:
    """`[:n, :n]` and `[:, :, :n, :n]` keep the diagonal where it is; `[None]` only adds a dimension."""
    items = index_items(node)
    for item in items:
        none = isinstance(item, ast.Constant) and item.value is None
        if not none and not (isinstance(item, ast.Slice) and item.lower is None and item.step is None):
            return False
    ends = [sites.tree.text(i.upper) for i in items if isinstance(i, ast.Slice) and i.upper is not None]
    last = items[-2:] if ends else []
    both = all(isinstance(i, ast.Slice) and i.upper is not None for i in last)
    return not ends or (len(ends) == 2 and ends[0] == ends[1] and both)


def _ones(sites: Sites, node: ast.expr) -> bool:
    """`torch.ones(n, n)`, and `torch.ones((n, n))`."""
    if isinstance(node, ast.Name):
        function = sites.tree.function(node)
        statement = definition(sites.tree, function, node.id) if function is not None else None
        return statement is not None and _ones(sites, statement.value)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if node.func.attr in {"bool", "to"}:
        return _ones(sites, node.func.value)
    if node.func.attr not in {"ones", "new_ones"} or not node.args:
        return False
    first = node.args[0]
    sizes = list(first.elts) if isinstance(first, (ast.Tuple, ast.List)) else node.args
    texts = [sites.tree.text(size) for size in sizes]
    return len(texts) >= 2 and texts[-1] == texts[-2] and all(is_repeatable(size) for size in sizes)
