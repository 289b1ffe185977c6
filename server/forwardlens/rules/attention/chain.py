"""The steps of attention written out, followed from the weights back to queries and keys."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from typing import Literal, TypedDict

from forwardlens.model import OpCost, Shape
from forwardlens.rules.attention.dropout import closed, dropout_of
from forwardlens.rules.attention.errors import NoAttentionError, NoCounterpartError
from forwardlens.rules.attention.hidden import hides, is_root
from forwardlens.rules.attention.parts import Guard, Mask, Scale, not_none
from forwardlens.rules.attention.products import Product, product_of, transposition
from forwardlens.rules.constants import attribute_value, is_number
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.operations import call_operands, called_name, is_repeatable, torch_function
from forwardlens.source.dataflow import definition, names_bound, names_read
from forwardlens.source.rewrite import stands_alone
from forwardlens.source.tree import argument, dotted, integer, keyword_name, walk

_ARITHMETIC: dict[type[ast.operator], str] = {ast.Mult: "mul", ast.Div: "div", ast.Add: "add", ast.Sub: "sub"}
_CASTS = {"to", "type", "type_as", "float", "half", "bfloat16", "double"}
# Calls that put dimensions together or take them apart.
_REGROUPING = frozenset({"view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze"})
_EMPTY = {"empty", "zeros", "new_empty", "new_zeros", "empty_like", "zeros_like"}
# What the scalar of an operator was where Python gave a number; a tensor of no dimensions is rarely one of these.
_NUMBERS = {"float64", "int64"}


@dataclass(frozen=True)
class Bound:
    """What a name was bound to: the expression or the statement that changes it, where, and under which condition."""

    value: ast.expr | ast.AugAssign
    statement: ast.stmt
    guard: Guard | None


@dataclass
class Chain:
    """What was met on the way from the weights back to queries and keys, last step first."""

    sites: Sites
    final: ast.stmt
    steps: list[ast.AST] = field(default_factory=list[ast.AST])
    statements: list[ast.stmt] = field(default_factory=list[ast.stmt])
    consumed: set[ast.Name] = field(default_factory=set[ast.Name])
    names: set[str] = field(default_factory=set[str])
    turns: list[ast.expr] = field(default_factory=list[ast.expr])
    masks: list[Mask] = field(default_factory=list[Mask])
    scales: list[Scale] = field(default_factory=list[Scale])
    dropout: str | None = None
    random: bool = False
    assumed: str | None = None
    regrouped: str | None = None
    softmax: ast.expr | None = None
    product: Product | None = None
    shape: Shape = ()

    def copy(self) -> Chain:
        other = copy.copy(self)
        for name in ("steps", "statements", "consumed", "names", "turns", "masks", "scales"):
            setattr(other, name, copy.copy(getattr(self, name)))
        return other

    def take(self, other: Chain) -> None:
        self.__dict__.update(other.__dict__)

    # -- the weights

    def weights(self, node: ast.expr, at: ast.stmt) -> None:
        if isinstance(node, ast.Name):
            bound = self._bound(node, at)
            if isinstance(bound.value, ast.AugAssign):
                raise NoAttentionError
            if bound.guard is None:
                self.weights(bound.value, bound.statement)
                return
            inner = self._dropout(bound.value, bound.guard) if isinstance(bound.value, ast.Call) else None
            if inner is None or not _unchanged(inner, bound.guard):
                raise NoAttentionError
            self.weights(inner, bound.statement)
            return
        turned = transposition(self.sites, node)
        if turned is not None:
            self.steps.append(node)
            self.turns.append(node)
            self.weights(turned, at)
            return
        if not isinstance(node, ast.Call):
            raise NoAttentionError
        inner = self._dropout(node, None)
        inner, reason = (inner, None) if inner is not None else self._cast(node) or (None, None)
        if inner is not None:
            self.steps.append(node)
            self.weights(inner, at)
            if reason is not None:
                raise NoCounterpartError(reason)
            return
        inner = self._regrouping(node)
        if inner is not None:
            self.weights(inner, at)
            return
        inner = self._softmax(node)
        if inner is None:
            raise NoAttentionError
        self.softmax = node
        self.steps.append(node)
        self.scores(inner, at, None)

    def _dropout(self, call: ast.Call, guard: Guard | None) -> ast.expr | None:
        found = dropout_of(self.sites, call)
        if isinstance(found, str):
            raise NoCounterpartError(found)
        if found is None:
            return None
        if self.dropout is not None:
            raise NoCounterpartError("its weights are dropped from twice")
        conditions = [] if guard is None else [closed(self.sites.tree, guard.test)]
        conditions += [] if found.active is None else [found.active]
        self.dropout = f"{found.rate} if {' and '.join(conditions)} else 0.0" if conditions else found.rate
        self.random = self.random or found.random
        self.assumed = found.assumed
        return found.inner

    def _cast(self, call: ast.Call) -> tuple[ast.expr, str | None] | None:
        """What is cast between half precision and float32, in which the fused operator adds up as well.

        With the reason where the cast may be one to something else. A plain copy counts as one.
        """
        func, tree = call.func, self.sites.tree
        if not isinstance(func, ast.Attribute) or torch_function(tree.module, func) is not None:
            return None
        given = [*call.args, *(k.value for k in call.keywords if k.arg == "dtype")]
        if func.attr == "contiguous" and not call.args and not call.keywords:
            return func.value, None
        takes = 1 if func.attr in {"to", "type", "type_as"} else 0
        if func.attr not in _CASTS or len(given) != takes or len(call.args) + len(call.keywords) != takes:
            return None
        wanted = (dotted(given[0]) or "").rpartition(".")[2] if given else func.attr
        for part in given:
            self._dtype_of(part)
        known = func.attr == "type_as" or wanted in {"dtype", "float32", "float"}
        return func.value, None if known else f"`{tree.text(call)}` may compute in another dtype"

    def _dtype_of(self, node: ast.expr) -> None:
        """`scores.dtype` reads nothing that has to be computed, nor does `dtype` where that is what it was bound to."""
        self.consumed.update(n for n in walk(node) if isinstance(n, ast.Name))
        function = self.sites.tree.function(node)
        if isinstance(node, ast.Name) and function is not None:
            made = definition(self.sites.tree, function, node.id)
            if made is not None and isinstance(made.value, ast.Attribute) and made.value.attr == "dtype":
                self.last_read(node)

    def _regrouping(self, call: ast.Call) -> ast.expr | None:
        """What is viewed with its heads and its batch in one dimension, or with each in its own again."""
        name = called_name(self.sites.tree.module, call)
        op = self.sites.op(call, f"aten::{name}") if name in _REGROUPING else None
        given = call_operands(self.sites.tree.module, call)
        if op is None or not op.shapes or not given:
            return None
        if self.shape and op.shapes[0][-1:] != self.shape[-1:]:
            raise NoAttentionError
        self.steps.append(call)
        self.regrouped = f"`{self.sites.tree.text(call)}` regroups the heads on the way"
        return given[0]

    def _softmax(self, call: ast.Call) -> ast.expr | None:
        op = self.sites.op(call, "aten::softmax")
        func, tree = call.func, self.sites.tree
        if op is None or not op.shapes:
            return None
        rank = len(op.shapes[0])
        leaf = (dotted(func) or "").split(".")[-1]
        keywords = {"dim", "input", "dtype"}
        module = attribute_value(tree, call, leaf) if dotted(func) == f"self.{leaf}" else func
        if torch_function(tree.module, func) is not None:
            inner, axis = argument(call, 0, "input"), argument(call, 1, "dim")
        elif isinstance(module, ast.Call) and (dotted(module.func) or "").endswith("Softmax") and len(call.args) == 1:
            inner, axis = call.args[0], argument(module, 0, "dim")
        elif isinstance(func, ast.Attribute) and func.attr == "softmax" and dotted(func) != "self.softmax":
            inner, axis = func.value, argument(call, 0, "dim")
        else:
            return None
        self.shape = op.shapes[0]
        if integer(axis) not in {-1, rank - 1} or rank not in {3, 4} or inner is None:
            raise NoAttentionError
        if any(keyword_name(k) not in keywords for k in call.keywords) or len(call.args) > 2:
            raise NoCounterpartError("the softmax has options that it does not know")
        dtype = next((k.value for k in call.keywords if k.arg == "dtype"), None)
        if dtype is not None and (dotted(dtype) or "").rpartition(".")[2] not in {"float32", "float", "dtype"}:
            raise NoCounterpartError("the softmax runs in another dtype")
        self.consumed.update(n for n in walk(dtype) if isinstance(n, ast.Name)) if dtype is not None else None
        return inner

    # -- the scores

    def scores(self, node: ast.expr | ast.AugAssign, at: ast.stmt, guard: Guard | None) -> None:
        if isinstance(node, ast.Name):
            bound = self._bound(node, at)
            self.scores(bound.value, bound.statement, bound.guard)
            return
        product = product_of(self.sites, node)
        if product is not None and guard is None:
            self._product(node, product)
            return
        found = self._arithmetic(node)
        if found is not None and found[0] == "add":
            self._added(node, found[1], found[2], at, guard)
        elif found is not None and guard is None and found[0] == "sub":
            self._shifted(node, found[1], found[2], at)
        elif found is not None and guard is None:
            self._scaled(node, *found, at)
        elif isinstance(node, ast.Call):
            cast = self._cast(node) if guard is None else None
            inner = self._regrouping(node) if guard is None and cast is None else None
            if inner is not None:
                self.scores(inner, at, None)
                return
            if cast is None:
                self._filled(node, at, guard)
                return
            self.steps.append(node)
            self.scores(cast[0], at, None)
            if cast[1] is not None:
                raise NoCounterpartError(cast[1])
        else:
            raise NoAttentionError

    def _arithmetic(self, node: ast.expr | ast.AugAssign) -> tuple[str, ast.expr, ast.expr] | None:
        """`mul` and both sides for `a * b`, `a *= b`, `a.mul(b)`, `a.mul_(b)` and `torch.mul(a, b)`."""
        if isinstance(node, ast.BinOp):
            name = _ARITHMETIC.get(type(node.op))
            return (name, node.left, node.right) if name is not None else None
        if isinstance(node, ast.AugAssign):
            name = _ARITHMETIC.get(type(node.op))
            return (name, node.target, node.value) if name is not None else None
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
            return None
        name, given = node.func.attr.removesuffix("_"), call_operands(self.sites.tree.module, node)
        return (name, given[0], given[1]) if name in _ARITHMETIC.values() and len(given) == 2 else None

    def _operator(self, node: ast.AST, name: str) -> OpCost | None:
        return self.sites.op(node, f"aten::{name}", f"aten::{name}_")

    def _scaled(self, node: ast.expr | ast.AugAssign, name: str, left: ast.expr, right: ast.expr, at: ast.stmt) -> None:
        tree = self.sites.tree
        self.steps.append(node)
        if name == "mul" and is_number(tree, left):
            left, right = right, left
        root = _root_of_tensor(self.sites, right)
        if root is None and not self._is_number(node, name, right):
            trial = self.copy()
            trial.scores(left, at, None)
            raise NoCounterpartError(f"`{tree.text(right)}` is not known to be a number")
        self.scales.append(Scale("*" if name == "mul" else "/", right if root is None else root, root is not None))
        self.scores(left, at, None)

    def _is_number(self, node: ast.AST, name: str, number: ast.expr) -> bool:
        if is_number(self.sites.tree, number):
            return True
        op = self._operator(node, name)
        if op is None or len(op.dtypes) < 2 or op.shapes[1] != () or op.dtypes[0] in _NUMBERS:
            return False
        calls = any(isinstance(n, ast.Call) and torch_function(self.sites.tree.module, n.func) for n in walk(number))
        return op.dtypes[1] in _NUMBERS and not calls

    def _shifted(self, node: ast.AST, left: ast.expr, right: ast.expr, at: ast.stmt) -> None:
        """`scores - scores.amax(dim=-1, keepdim=True)`: what all scores of a row have in common changes no weight."""
        greatest = _greatest(right, len(self.shape))
        if not isinstance(left, ast.Name) or greatest is None or greatest.id != left.id:
            raise NoAttentionError
        self.consumed.add(greatest)
        self.steps.append(node)
        self.scores(left, at, None)

    def _added(
        self, node: ast.expr | ast.AugAssign, left: ast.expr, right: ast.expr, at: ast.stmt, guard: Guard | None
    ) -> None:
        op = self._operator(node, "add")
        for inner, mask in ((left, right), (right, left)):
            if not _unchanged(inner, guard):
                continue
            trial = self.copy()
            trial.steps.append(node)
            other = 0 if mask is left else 1
            trial.masks.append(Mask("add", mask, None, guard=guard, **_shapes(op, other, 1 - other)))
            try:
                trial.scores(inner, at, None)
            except NoAttentionError:
                continue
            if self.scales:
                raise NoCounterpartError("a mask is added before the scores are scaled")
            # Of other masks than the scores' own dtype the fused operator takes those of float32.
            dtypes = op.dtypes if op is not None else ()
            if len(dtypes) > 1 and dtypes[other] not in {dtypes[1 - other], "float32"}:
                raise NoCounterpartError(f"`{self.sites.tree.text(mask)}` has another dtype than the scores")
            self.take(trial)
            return
        raise NoAttentionError

    def _filled(self, call: ast.Call, at: ast.stmt, guard: Guard | None) -> None:
        func = call.func
        name = torch_function(self.sites.tree.module, func)
        function = name is not None
        name = name or (func.attr if isinstance(func, ast.Attribute) else None)
        receiver = [] if function or not isinstance(func, ast.Attribute) else [func.value]
        named = [k.value for wanted in ("mask", "value") for k in call.keywords if k.arg == wanted]
        given = [*receiver, *call.args, *named]
        if len(named) != len(call.keywords) or (named and name == "where") or len(given) != 3:
            raise NoAttentionError
        if name == "where":
            mask, kept, other = given if function else (given[1], given[0], given[2])
            try:
                trial = self.copy()
                trial.hidden(call, "keep", mask, kept, other, at, guard)
            except NoAttentionError:
                trial = self.copy()
                trial.hidden(call, "fill", mask, other, kept, at, guard)
            self.take(trial)
        elif name in {"masked_fill", "masked_fill_"}:
            self.hidden(call, "fill", given[1], self._filled_scores(call, given[0]), given[2], at, guard)
        else:
            raise NoAttentionError

    def hidden(
        self,
        call: ast.Call,
        kind: Literal["fill", "keep"],
        mask: ast.expr,
        inner: ast.expr,
        value: ast.expr,
        at: ast.stmt,
        guard: Guard | None,
    ) -> None:
        """`inner` are scores, and `value` stands in place of those that `mask` hides."""
        if not _unchanged(inner, guard):
            raise NoAttentionError
        self.steps.append(call)
        found = hides(self.sites.tree, value)
        if found is None:
            # Only of attention the reason is worth telling.
            self.copy().scores(inner, at, None)
            raise NoCounterpartError(f"`{self.sites.tree.text(value)}` is not known to hide a score")
        self.last_read(value)
        harmless = found.lowest and all(scale.root or is_root(self.sites.tree, scale.number) for scale in self.scales)
        unclear = bool(self.scales) and not found.infinite and not harmless
        op = self.sites.op(call, "aten::where", "aten::masked_fill", "aten::masked_fill_")
        where = op is not None and op.name == "aten::where"
        shapes = _shapes(op, *((0, 1 if kind == "keep" else 2) if where else (1, 0)))
        self.masks.append(Mask(kind, mask, found.value, found.asks_dtype, found.infinite, guard, **shapes))
        self.scores(inner, at, None)
        if unclear:
            raise NoCounterpartError("scores are hidden before they are scaled")

    def last_read(self, value: ast.expr) -> None:
        """What `value` reads is for it alone: where a name was bound for nothing else, its statement goes as well."""
        tree = self.sites.tree
        self.consumed.update(n for n in walk(value) if isinstance(n, ast.Name))
        function = tree.function(value)
        if not isinstance(value, ast.Name) or function is None:
            return
        statement = definition(tree, function, value.id)
        uses = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == value.id]
        alone = statement is not None and statement in tree.block(self.final) and stands_alone(tree, statement)
        if statement is not None and alone and len(uses) == 2:
            self.statements.append(statement)
            self.names.add(value.id)
            self.last_read(statement.value)

    def _filled_scores(self, call: ast.Call, base: ast.expr) -> ast.expr:
        """What is filled: `scores` too for `scores[:, :, :, :n]` that was all of them when it ran.

        Where it is not all of them, the mask is too short for the fused operator, which then raises.
        """
        op = self.sites.op(call, "aten::masked_fill_")
        whole = op is not None and op.shapes[0] == self.shape and _sliced(base) is not None
        return base.value if whole and isinstance(base, ast.Subscript) else base

    def _product(self, node: ast.AST, product: Product) -> None:
        self.steps.append(node)
        if product.added is not None:
            self._added_by_product(node, product, product.added)
        if product.alpha is not None:
            self.scales.append(Scale("*", product.alpha))
        self.product = product
        if product.ranked(len(self.shape)) is None:
            raise NoCounterpartError("queries and keys have other ranks or batches than the fused operator takes")

    def _added_by_product(self, node: ast.AST, product: Product, added: ast.expr) -> None:
        """The first operand of `baddbmm`: a mask, or with `beta=0` nothing at all."""
        beta = 1 if product.beta is None else product.beta.value if isinstance(product.beta, ast.Constant) else None
        if beta == 0:
            function = self.sites.tree.function(node)
            if isinstance(added, ast.Name) and function is not None:
                made = definition(self.sites.tree, function, added.id)
                value = made.value if made is not None else None
                if isinstance(value, ast.Call) and (dotted(value.func) or "").rpartition(".")[2] in _EMPTY:
                    self.last_read(added)
        elif beta == 1:
            if self.scales:
                raise NoCounterpartError("a mask is added before the scores are scaled")
            op = self.sites.op(node, "aten::baddbmm")
            self.masks.append(Mask("add", added, shape=op.shapes[0] if op is not None else None))
        else:
            raise NoCounterpartError("the factor `beta` of its mask is not 0 or 1")

    # -- names

    def _bound(self, name: ast.Name, at: ast.stmt) -> Bound:
        """What a name was last bound to before the statement `at`."""
        tree = self.sites.tree
        self.consumed.add(name)
        self.names.add(name.id)
        block = tree.block(self.final)
        at = top_of(self.sites, at, block)
        for earlier in reversed(block[: block.index(at)]):
            if name.id not in names_bound(earlier) and not _changes(earlier, name.id):
                continue
            if not isinstance(earlier, ast.If):
                self.statements.append(earlier)
                return Bound(_value(earlier, name.id), earlier, None)
            return self._bound_under(earlier, name.id)
        raise NoAttentionError

    def _bound_under(self, branch: ast.If, name: str) -> Bound:
        """The last statement of an `if` without `else`, where the others leave the name and the condition alone."""
        *others, last = branch.body
        kept = {n for other in others for n in (*names_bound(other), *names_read(other))}
        touched = {n for other in others for n in names_bound(other)}
        test = names_read(branch.test)
        if branch.orelse or name in kept or not is_repeatable(branch.test):
            raise NoAttentionError
        if not_none(branch.test) is None and touched & test:
            raise NoAttentionError
        value = _value(last, name)
        self.statements.append(last if others else branch)
        return Bound(value, branch, Guard(branch.test, name))


def _unchanged(inner: ast.expr, guard: Guard | None) -> bool:
    """Whether a change under a condition is one of what the name stood for before."""
    return guard is None or (isinstance(inner, ast.Name) and inner.id == guard.name)


class _Shapes(TypedDict):
    shape: Shape | None
    scores: Shape | None


def _shapes(op: OpCost | None, mask: int, scores: int) -> _Shapes:
    """The shapes of a mask and of the scores that it is put on, by their positions."""
    if op is None or len(op.shapes) <= max(mask, scores):
        return {"shape": None, "scores": None}
    return {"shape": op.shapes[mask], "scores": op.shapes[scores]}


def top_of(sites: Sites, statement: ast.stmt, block: list[ast.stmt]) -> ast.stmt:
    """The statement of `block` that is `statement` or stands around it."""
    if statement in block:
        return statement
    return next(above for above in sites.tree.ancestors(statement) if above in block)  # pyright: ignore[reportReturnType]


def _value(step: ast.stmt, name: str) -> ast.expr | ast.AugAssign:
    """What a statement binds a name to or changes it with."""
    targets = step.targets if isinstance(step, ast.Assign) else [getattr(step, "target", None)]
    if isinstance(step, ast.Expr) and isinstance(step.value, ast.Call):
        return step.value
    if len(targets) != 1 or not isinstance(targets[0], ast.Name) or targets[0].id != name:
        raise NoAttentionError
    if isinstance(step, ast.AugAssign):
        return step
    if isinstance(step, (ast.Assign, ast.AnnAssign)) and step.value is not None:
        return step.value
    raise NoAttentionError


def _changes(statement: ast.stmt, name: str) -> bool:
    """`scores.masked_fill_(...)` as a statement of its own, also of a slice and under an `if`."""
    inner = statement.body[-1] if isinstance(statement, ast.If) else statement
    call = inner.value if isinstance(inner, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    changed = call.func.value
    plain = call.func.attr in {"mul_", "div_", "add_"} and dotted(changed) == name
    return plain or (call.func.attr == "masked_fill_" and name in {dotted(changed), _sliced(changed)})


def _sliced(node: ast.expr) -> str | None:
    """`scores` for `scores[:, :, : n]`, a name from whose start on something is taken."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return None
    starts = all(isinstance(i, ast.Slice) and i.lower is None and i.step is None for i in index_items(node))
    return node.value.id if starts else None


def _greatest(node: ast.expr, rank: int) -> ast.Name | None:
    """`scores` for `scores.amax(dim=-1, keepdim=True)`, also by `max`, and detached."""
    while not isinstance(node, ast.Call) or (isinstance(node.func, ast.Attribute) and node.func.attr == "detach"):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
            continue
        values = isinstance(node, ast.Attribute) and node.attr == "values"
        if not isinstance(node, (ast.Subscript, ast.Attribute)) or not (values or _is_zero(node)):
            return None
        node = node.value
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in {"amax", "max"}:
        return None
    keep = argument(node, 1, "keepdim")
    last = integer(argument(node, 0, "dim")) in {-1, rank - 1}
    kept = isinstance(keep, ast.Constant) and keep.value is True
    return node.func.value if last and kept and isinstance(node.func.value, ast.Name) else None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and integer(node.slice) == 0


def _root_of_tensor(sites: Sites, node: ast.expr) -> ast.expr | None:
    """The number in `torch.sqrt(torch.tensor(number))`."""
    module = sites.tree.module
    if not isinstance(node, ast.Call) or len(node.args) != 1 or torch_function(module, node.func) != "sqrt":
        return None
    inner = node.args[0]
    if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in {"to", "float"}:
        inner = inner.func.value
    made = isinstance(inner, ast.Call) and torch_function(module, inner.func) in {"tensor", "as_tensor"}
    number = inner.args[0] if made and isinstance(inner, ast.Call) and len(inner.args) == 1 else None
    return number if number is not None and is_number(sites.tree, number) else None
