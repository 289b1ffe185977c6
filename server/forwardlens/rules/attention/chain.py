"""The steps of attention written out, followed from the weights back to queries and keys."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass, field
from typing import Literal

from forwardlens.model import Shape
from forwardlens.rules.constants import attribute_value, is_number
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.operations import is_torch_function
from forwardlens.source.dataflow import names_bound
from forwardlens.source.tree import argument, dotted, integer

# A score at or below this leaves no weight behind: exp of it is zero in every dtype.
_HIDDEN = -1e4


class NoAttentionError(Exception):
    """No attention, or one whose weights are needed."""


class NoCounterpartError(Exception):
    """Attention without an exact counterpart. The message says why."""


@dataclass
class Mask:
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
class Chain:
    """What was met on the way from the weights back to queries and keys, last step first."""

    sites: Sites
    final: ast.stmt
    steps: list[ast.expr] = field(default_factory=list[ast.expr])
    statements: list[ast.stmt] = field(default_factory=list[ast.stmt])
    consumed: set[ast.Name] = field(default_factory=set[ast.Name])
    names: set[str] = field(default_factory=set[str])
    masks: list[Mask] = field(default_factory=list[Mask])
    scales: list[tuple[str, ast.expr]] = field(default_factory=list[tuple[str, ast.expr]])
    dropout: str | None = None
    random: bool = False
    softmax: ast.expr | None = None
    query: ast.expr | None = None
    key: str = ""
    swapped: bool = False
    shape: Shape = ()

    def copy(self) -> Chain:
        other = copy.copy(self)
        for name in ("steps", "statements", "consumed", "names", "masks", "scales"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def take(self, other: Chain) -> None:
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
        raise NoAttentionError

    def _dropout(self, call: ast.Call) -> ast.expr | None:
        tree, given = self.sites.tree, call.args
        leaf = (dotted(call.func) or "").split(".")[-1]
        if leaf == "dropout" and is_torch_function(tree.module, call.func) and given:
            p = argument(call, 1, "p")
            training = argument(call, 2, "training")
            if any(k.arg not in {"p", "training"} for k in call.keywords) or len(given) > 3:
                raise NoCounterpartError("the dropout has options that it does not know")
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
            raise NoAttentionError
        if any(k.arg not in {"dim", "input"} for k in call.keywords) or len(call.args) > 2:
            raise NoCounterpartError("the softmax runs in another dtype")
        return inner

    # -- the scores

    def scores(self, node: ast.expr, at: ast.stmt, guard: str | None) -> None:
        sites, tree = self.sites, self.sites.tree
        if isinstance(node, ast.Name):
            value, statement, guard = self._bound(node, at)
            self.scores(value, statement, guard)
            return
        operands = operands_of(sites, node)
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
                raise NoCounterpartError(f"`{tree.text(node.right)}` is not known to be a number")
            self.scales.append((sign, node.right))
            self.scores(node.left, at, None)
            return
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            self._added(node, at, guard)
            return
        if isinstance(node, ast.Call):
            self._filled(node, at, guard)
            return
        raise NoAttentionError

    def _added(self, node: ast.BinOp, at: ast.stmt, guard: str | None) -> None:
        if self.scales:
            raise NoCounterpartError("a mask is added before the scores are scaled")
        for inner, mask in ((node.left, node.right), (node.right, node.left)):
            trial = self.copy()
            trial.steps.append(node)
            shapes = self.sites.operands(node)
            rank = None if shapes is None else len(shapes[0 if mask is node.left else 1])
            trial.masks.append(Mask("add", mask, guard=guard, rank=rank))
            try:
                trial.scores(inner, at, None)
            except NoAttentionError:
                continue
            self.take(trial)
            return
        raise NoAttentionError

    def _filled(self, call: ast.Call, at: ast.stmt, guard: str | None) -> None:
        tree, func = self.sites.tree, call.func
        if not isinstance(func, ast.Attribute):
            raise NoAttentionError
        function = is_torch_function(tree.module, func)
        if func.attr == "where" and function and len(call.args) == 3:
            inner, value = call.args[1], call.args[2]
        elif func.attr in {"masked_fill", "masked_fill_"} and not function and len(call.args) == 2:
            inner, value = self._filled_scores(call, func), call.args[1]
        else:
            raise NoAttentionError
        self.steps.append(call)
        infinite, owner = self._hides(value)
        if self.scales and not infinite:
            raise NoCounterpartError("scores are hidden before they are scaled")
        kind: Literal["fill", "keep"] = "keep" if func.attr == "where" else "fill"
        op = self.sites.op(call, f"aten::{func.attr}")
        position = 0 if kind == "keep" else 1
        rank = len(op.shapes[position]) if op is not None and len(op.shapes) > position else None
        self.masks.append(Mask(kind, call.args[0], value, owner, infinite, guard, rank))
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
        raise NoCounterpartError(f"`{self.sites.tree.text(node)}` is not known to hide a score")

    def _product(self, node: ast.expr, query: ast.expr, key: ast.expr) -> None:
        self.steps.append(node)
        self.query = query
        tree = self.sites.tree
        letters = einsum_of(self.sites, node)
        if letters is not None:
            layout = _scores_layout(*letters)
            if layout is None:
                raise NoCounterpartError("its products are of another order")
            self.swapped = layout == "swapped"
            self.key = tree.text(key)
            return
        op = self.sites.op(node, "aten::matmul", "aten::bmm")
        if op is None or len(op.shapes) < 2:
            raise NoAttentionError
        first, second = op.shapes[:2]
        if len(first) not in {3, 4} or len(first) != len(second) or first[:-2] != second[:-2]:
            raise NoCounterpartError("queries and keys have other ranks than the fused operator takes")
        swapped = _transposed(self.sites, key, len(first))
        self.key = tree.text(swapped) if swapped is not None else f"{as_atom(self.sites, key)}.transpose(-2, -1)"

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
                    raise NoAttentionError
                step = earlier.body[0]
            self.statements.append(earlier)
            value = _value(step)
            if guard is not None:
                return value, step, guard
            return value, earlier, None
        raise NoAttentionError


def _value(step: ast.stmt) -> ast.expr:
    if isinstance(step, ast.Assign) and len(step.targets) == 1 and isinstance(step.targets[0], ast.Name):
        return step.value
    if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call):
        return step.value
    raise NoAttentionError


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


def operands_of(sites: Sites, node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
    """The two sides of a matrix product that ran."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        return node.left, node.right
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return None
    if einsum_of(sites, node) is not None:
        return node.args[1], node.args[2]
    if node.func.attr not in {"matmul", "bmm"}:
        return None
    if is_torch_function(sites.tree.module, node.func):
        return (node.args[0], node.args[1]) if len(node.args) == 2 else None
    return (node.func.value, node.args[0]) if len(node.args) == 1 else None


def einsum_of(sites: Sites, node: ast.expr) -> tuple[str, str, str] | None:
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


def values_layout(weights: str, value: str, result: str) -> tuple[bool, bool] | None:
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


def as_atom(sites: Sites, node: ast.expr) -> str:
    """The text of `node` as it may stand in front of a dot."""
    text = sites.tree.text(node)
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"
