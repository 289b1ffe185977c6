"""Whether a call treats the samples of its batch one by one, so that a larger batch gives the same for each of them.

The code of functions and modules of the file is followed; a module of a library is known by the operators that it ran.
Samples are what stands along dimension 0 of a tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from forwardlens.model import OpCost
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import arguments_of, called_function
from forwardlens.rules.constants import is_number
from forwardlens.rules.evidence import Sites, depends_on_order, index_items
from forwardlens.rules.heads import shape_of, size_expression
from forwardlens.rules.lifting.views import listed
from forwardlens.rules.operations import ELEMENTWISE, ELEMENTWISE_MODULES, JOINS, is_torch_function
from forwardlens.rules.reducing import ALONG, PAIRED, REDUCING
from forwardlens.source.dataflow import is_inplace, may_alias, names_read
from forwardlens.source.tree import Function, argument, dotted, integer, keyword_name, walk

# How many functions a value is followed into.
_DEPTH = 4
# Operators of library modules that keep samples apart, and what they make of the number of dimensions.
_KEEPING = ELEMENTWISE_MODULES | frozenset(
    f"aten::{name}"
    for name in """linear layer_norm group_norm instance_norm conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d
    adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d flatten upsample_nearest2d upsample_bilinear2d relu_
    relu6 hardtanh_ silu_ embedding""".split()
)
# These bring samples together in training only.
_KEEPING_IN_EVALUATION = frozenset({"aten::batch_norm", "aten::dropout"})
# With fewer dimensions these take no batch: `conv2d` of three has channels in front.
_LEAST_RANKS = {
    "1d": 3,
    "2d": 4,
    "3d": 5,
    "linear": 2,
    "group_norm": 2,
    "batch_norm": 2,
    "instance_norm": 3,
    "interpolate": 3,
}
# Functions of torch that take the batch first and keep samples apart.
FUNCTIONS_OF_SAMPLES = frozenset(
    """linear layer_norm group_norm conv1d conv2d conv3d max_pool1d max_pool2d avg_pool1d avg_pool2d
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_max_pool2d interpolate""".split()
)
_ONE_VALUE = REDUCING - PAIRED
_KEEPING_DIMS = ALONG | {"cumprod", "flip"}


@dataclass(frozen=True)
class _Rows:
    """A tensor of that many dimensions, the first of which runs over the samples."""

    rank: int


@dataclass(frozen=True)
class _Count:
    """How many samples there are."""


@dataclass(frozen=True)
class _Same:
    """The same for any samples."""


_Value = _Rows | _Count | _Same


def samples_kept_apart(sites: Sites, call: ast.Call, given: ast.expr, rank: int, *, in_evaluation: bool) -> int:
    """The rank of what `call` gives, if its argument `given` holds samples that it keeps apart.

    With `in_evaluation` batch normalisation and dropout count as they are outside of training. Raises `RefusedError`
    if it may do something else.
    """
    return _Follower(sites, {}, _KEEPING | _KEEPING_IN_EVALUATION if in_evaluation else _KEEPING).call_with(
        call, given, rank
    )


@dataclass
class _Follower:
    """Follows the samples through the code of one function."""

    sites: Sites
    known: Mapping[str, _Value]
    keeping: frozenset[str]
    depth: int = _DEPTH
    values: dict[str, _Value] = field(default_factory=dict[str, _Value])
    # Names that hold memory of their own, which may change.
    made: set[str] = field(default_factory=set[str])

    def call_with(self, call: ast.Call, given: ast.expr, rank: int) -> int:
        function = called_function(self.sites, call)
        if function is None:
            return self._library_module(call, rank)
        arguments = arguments_of(function, call)
        if arguments is None:
            raise RefusedError(f"it is not plain what `{self._text(call.func)}` is given")
        taken: dict[str, _Value] = {name: _Rows(rank) if a is given else _Same() for name, a in arguments.items()}
        return self._returned(call, function, taken)

    def _returned(self, call: ast.Call, function: Function, taken: Mapping[str, _Value]) -> int:
        if self.depth == 0 or function.decorator_list or isinstance(function, ast.AsyncFunctionDef):
            raise RefusedError(f"`{self._text(call.func)}` does more than compute a value")
        return _Follower(self.sites, taken, self.keeping, self.depth - 1).body(function)

    def body(self, function: Function) -> int:
        """The rank of what a function returns, which has to hold the samples."""
        for statement in function.body:
            match statement:
                case ast.Expr(value=ast.Constant()) | ast.Assert():
                    continue
                case ast.Return(value=ast.expr() as value):
                    return self._rows(value).rank
                case ast.Assign(targets=[ast.Name() as target], value=value):
                    self.values[target.id] = self.value(value)
                    self.made.discard(target.id)
                    if not may_alias(value):
                        self.made.add(target.id)
                case ast.Assign(targets=[ast.Tuple() as target], value=value) if shape_of(value) is not None:
                    self._sizes(target, value)
                case ast.AugAssign(target=ast.Name() as target, op=op, value=value) if target.id in self.made:
                    sides = ast.copy_location(ast.BinOp(ast.Name(target.id, ast.Load()), op, value), statement)
                    self.values[target.id] = self._together(sides, [self._named(target.id), self.value(value)])
                case _:
                    raise RefusedError(f"line {statement.lineno} may bring samples together")
        raise RefusedError("a function returns nothing")

    def _sizes(self, target: ast.Tuple, value: ast.expr) -> None:
        base = shape_of(value)
        rows = base is not None and isinstance(self.value(base), _Rows)
        for number, element in enumerate(target.elts):
            if not isinstance(element, ast.Name):
                raise RefusedError(f"`{self._text(target)}` is not plain")
            self.values[element.id] = _Count() if rows and number == 0 else _Same()

    def _named(self, name: str) -> _Value:
        return self.values.get(name) or self.known.get(name) or _Same()

    def _rows(self, node: ast.expr) -> _Rows:
        value = self.value(node)
        if not isinstance(value, _Rows):
            raise RefusedError(f"`{self._text(node)}` does not hold the samples of a batch")
        return value

    def value(self, node: ast.expr) -> _Value:
        """What an expression says of the samples. Raises `RefusedError` if it may bring them together."""
        if isinstance(node, ast.Name):
            return self._named(node.id)
        if not any(isinstance(self._named(name), _Rows | _Count) for name in names_read(node)):
            return self._steady(node)
        size = size_expression(node)
        if size is not None:
            return _Count() if size[1] == 0 and isinstance(self.value(size[0]), _Rows) else _Same()
        match node:
            case ast.Attribute(attr="dtype" | "device" | "ndim"):
                return _Same()
            case ast.Attribute(attr="mT") if (rows := self._rows(node.value)).rank >= 3:
                return rows
            case ast.Subscript():
                return self._indexed(node)
            case ast.UnaryOp():
                return self._rows(node.operand)
            case ast.BinOp(op=ast.MatMult()):
                return self._product(node, node.left, node.right)
            case ast.BinOp():
                return self._together(node, [self.value(node.left), self.value(node.right)])
            case ast.Compare(comparators=[other]):
                return self._together(node, [self.value(node.left), self.value(other)])
            case ast.Call():
                return self._called(node)
            case _:
                raise RefusedError(f"`{self._text(node)}` may bring samples together")

    def _steady(self, node: ast.expr) -> _Same:
        """What has no part in the samples must give the same for each call, and draw nothing."""
        drawn = depends_on_order(cost for _, cost in self.sites.inside(node))
        if drawn is not None:
            raise RefusedError(f"`{drawn}` draws other numbers in each call")
        return _Same()

    def _together(self, node: ast.BinOp | ast.Compare, values: Sequence[_Value]) -> _Value:
        """An operator on each element: operands without samples must not have a dimension beside the samples'."""
        ranks = [v.rank for v in values if isinstance(v, _Rows)]
        if any(isinstance(v, _Count) for v in values) or not ranks or len({*ranks}) != 1:
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        sides = [node.left, node.right] if isinstance(node, ast.BinOp) else [node.left, *node.comparators]
        others = [side for side, v in zip(sides, values, strict=True) if isinstance(v, _Same)]
        for other in others:
            if not is_number(self.sites.tree, other) and not self._is_lower(node, ranks[0]):
                raise RefusedError(f"`{self._text(other)}` may have a row for each sample")
        return _Rows(ranks[0])

    def _is_lower(self, node: ast.AST, rank: int) -> bool:
        """Whether one of two operands has fewer dimensions than the one with the samples."""
        shapes = self.sites.operands(node)
        return shapes is not None and max(map(len, shapes)) == rank and min(map(len, shapes)) < rank

    def _indexed(self, node: ast.Subscript) -> _Value:
        """`x[:, -1]`, `x[..., 0]`: all samples, and the same of each."""
        if shape_of(node.value) is not None:
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        items, rank = index_items(node), self._rows(node.value).rank
        plain = all(isinstance(i, ast.Slice) or _is_plain(i) for i in items)
        if not plain or any(not isinstance(self.value(n), _Same) for i in items for n in _bounds(i)):
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        first, rest = items[0], items[1:]
        whole = isinstance(first, ast.Slice) and not (first.lower or first.upper or first.step)
        spread = isinstance(first, ast.Constant) and first.value is ...
        numbers = sum(integer(i) is not None for i in rest)
        if not (whole or (spread and numbers < rank)):
            raise RefusedError(f"`{self._text(node)}` takes some of the samples")
        added = sum(isinstance(i, ast.Constant) and i.value is None for i in rest)
        return _Rows(rank - numbers + added)

    def _product(self, node: ast.expr, left: ast.expr, right: ast.expr) -> _Value:
        one, other = self.value(left), self.value(right)
        if isinstance(one, _Rows) and isinstance(other, _Rows) and one.rank == other.rank >= 3:
            return one
        shapes = next((op.shapes for op in self._ops(node) if len(op.shapes) >= 2), None)
        ranks = [len(s) for s in shapes[:2]] if shapes is not None else [0, 0]
        if isinstance(one, _Rows) and isinstance(other, _Same) and one.rank >= 2 and ranks[1] in (1, 2):
            return _Rows(one.rank - (ranks[1] == 1))
        if isinstance(other, _Rows) and isinstance(one, _Same) and other.rank >= 3 and ranks[0] == 2:
            return other
        raise RefusedError(f"`{self._text(node)}` may bring samples together")

    def _called(self, node: ast.Call) -> _Value:
        func, tree = node.func, self.sites.tree
        library = isinstance(func, ast.Attribute) and is_torch_function(tree.module, func)
        if isinstance(func, ast.Attribute) and (library or not (dotted(func.value) or "").startswith("self")):
            operands = node.args if library else [func.value, *node.args]
            return self._operator(node, func.attr, operands)
        varying = [a for a in (*node.args, *(k.value for k in node.keywords)) if not isinstance(self.value(a), _Same)]
        if len(varying) != 1:
            raise RefusedError(f"`{self._text(node)}` has several arguments that hold samples")
        return _Rows(self.call_with(node, varying[0], self._rows(varying[0]).rank))

    def _operator(self, node: ast.Call, name: str, operands: Sequence[ast.expr]) -> _Value:
        """A function or a method of torch."""
        if any(k.arg in {"out", "inplace", None} for k in node.keywords) or any(
            isinstance(o, ast.Starred) for o in operands
        ):
            raise RefusedError(f"`{self._text(node)}` is not plain")
        if name in JOINS:
            return self._joined(node, name)
        others = [self.value(o) for o in (*operands[1:], *(k.value for k in node.keywords))]
        if name in {"view", "reshape"}:
            return self._reshaped(node, operands)
        if name in {"matmul", "bmm"} and len(operands) == 2:
            return self._product(node, operands[0], operands[1])
        if name == "scaled_dot_product_attention" and len(operands) == 3 and not node.keywords:
            rows = {self._rows(o).rank for o in operands}
            if len(rows) == 1 and min(rows) >= 3:
                return _Rows(rows.pop())
        if name in ELEMENTWISE:
            return self._elementwise(node, operands)
        rows = self._rows(operands[0])
        if any(not isinstance(o, _Same) for o in others):
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        if name in FUNCTIONS_OF_SAMPLES and _takes_batch(name, rows.rank, self._ops(node)):
            return rows
        dims = self._dims(node, operands)
        if name == "norm" and len(operands) > 1 and not any(keyword_name(k) == "dim" for k in node.keywords):
            raise RefusedError(f"`{self._text(node)}` names no dimension")
        if name in {"unsqueeze", "squeeze"} and len(dims) == 1:
            return self._with_or_without(node, name, rows.rank, dims[0])
        if name in {"transpose", "swapaxes"} and len(dims) == 2 and all(d % rows.rank for d in dims):
            return rows
        if name == "permute" and len(dims) == rows.rank and dims[0] == 0:
            return rows
        if (
            name == "flatten"
            and len(dims) in (1, 2)
            and not any(k.arg == "end_dim" for k in node.keywords)
            and dims[0] % rows.rank
        ):
            last = dims[1] % rows.rank if len(dims) == 2 else rows.rank - 1
            return _Rows(rows.rank - (last - dims[0] % rows.rank))
        if name in _KEEPING_DIMS and dims and all(d % rows.rank for d in dims):
            return rows
        if name in _ONE_VALUE and dims and all(d % rows.rank for d in dims):
            kept = any(keyword_name(k) == "keepdim" and getattr(k.value, "value", False) is True for k in node.keywords)
            return rows if kept else _Rows(rows.rank - len(dims))
        raise RefusedError(f"`{name}` may bring samples together")

    def _elementwise(self, node: ast.Call, operands: Sequence[ast.expr]) -> _Value:
        """`torch.where(h > 0, h, x)`: tensors with the samples in front, and numbers."""
        values = [self.value(o) for o in operands]
        rows = [v.rank for v in values if isinstance(v, _Rows)]
        fixed = [(o, v) for o, v in zip(operands, values, strict=True) if not isinstance(v, _Rows)]
        numbers = all(isinstance(v, _Same) and is_number(self.sites.tree, o) for o, v in fixed)
        options = [self.value(k.value) for k in node.keywords]
        plain = isinstance(values[0], _Rows) if options else len({*rows}) == 1
        if not numbers or not plain or (options and len(rows) > 1) or any(not isinstance(v, _Same) for v in options):
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        return _Rows(rows[0])

    def _dims(self, node: ast.Call, operands: Sequence[ast.expr]) -> list[int]:
        """The dimensions that a call names, by position or as `dim`. Empty if they are not plain."""
        named = next((k.value for k in node.keywords if keyword_name(k) in {"dim", "start_dim", "dims"}), None)
        given = listed([named] if named is not None else operands[1:])
        found = [integer(g) for g in given]
        return [d for d in found if d is not None] if None not in found else []

    def _with_or_without(self, node: ast.Call, name: str, rank: int, dim: int) -> _Value:
        """One more dimension, or one less where it has the size 1; not that of the samples."""
        if name == "unsqueeze" and dim % (rank + 1):
            return _Rows(rank + 1)
        op = next((op for op in self._ops(node) if op.shapes and len(op.shapes[0]) == rank), None)
        if name == "squeeze" and dim % rank and op is not None:
            return _Rows(rank - (op.shapes[0][dim % rank] == 1))
        raise RefusedError(f"`{self._text(node)}` may bring samples together")

    def _reshaped(self, node: ast.Call, operands: Sequence[ast.expr]) -> _Value:
        """`x.view(x.size(0), -1)`: the samples stay in front."""
        self._rows(operands[0])
        sizes = listed(operands[1:])
        values = [self.value(s) for s in sizes]
        if len(values) < 2 or not isinstance(values[0], _Count) or not all(isinstance(v, _Same) for v in values[1:]):
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        return _Rows(len(sizes))

    def _joined(self, node: ast.Call, name: str) -> _Value:
        parts, dim = argument(node, 0, "tensors"), argument(node, 1, "dim")
        number = integer(dim)
        if not isinstance(parts, (ast.List, ast.Tuple)) or number is None:
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        ranks = {self._rows(e).rank for e in parts.elts}
        rank = ranks.pop()
        if ranks or not number % (rank + (name == "stack")):
            raise RefusedError(f"`{self._text(node)}` may bring samples together")
        return _Rows(rank + (name == "stack"))

    def _library_module(self, call: ast.Call, rank: int) -> int:
        """The rank that a module of a library gives, by the operators that it ran at its call."""
        ops = self._ops(call)
        # An operator in place that comes first, or behind a view, changes what the call is given.
        first = next((op.name for op in ops if op.name != "aten::flatten"), "")
        samples = {_samples_of(op)[:1] for op in ops}
        apart = {op.name for op in ops} <= self.keeping and len(samples) == 1 and all(samples)
        batched = all(_takes_batch(op.name, len(_samples_of(op)), [op]) for op in ops)
        if not apart or not batched or len(_samples_of(ops[0])) != rank or is_inplace(first):
            raise RefusedError(f"`{self._text(call.func)}` is not known to keep samples apart")
        return _rank_after(ops[-1])

    def _ops(self, node: ast.AST) -> Sequence[OpCost]:
        """The outermost operators of an expression, in the order in which they ran."""
        cost = self.sites.cost(node)
        ops = [op for op in cost.ops if op.outermost] if cost is not None else []
        return sorted(ops, key=lambda op: op.position)

    def _text(self, node: ast.AST) -> str:
        return self.sites.tree.text(node) if isinstance(node, (ast.expr, ast.stmt)) and hasattr(node, "lineno") else ""


def _takes_batch(name: str, rank: int, ops: Sequence[OpCost]) -> bool:
    """Whether an operator has the samples in front and something of each behind that it works on."""
    if name.endswith("layer_norm"):
        # What it normalises is as long as its weight, which it may lack.
        return all(len(op.shapes) > 2 and 0 < len(op.shapes[2]) < rank for op in ops) and bool(ops)
    return rank >= next((least for part, least in _LEAST_RANKS.items() if name.endswith(part)), 1)


def _samples_of(op: OpCost) -> tuple[int, ...]:
    """The shape of what an operator takes the samples of: a look-up has its table first."""
    return tuple(op.shapes[1 if op.name == "aten::embedding" else 0])


def _rank_after(op: OpCost) -> int:
    if op.name == "aten::flatten":
        # What `nn.Flatten` does unless it is told otherwise; another result shows when the fix is tried.
        return 2
    return len(_samples_of(op)) + (op.name == "aten::embedding")


def _is_plain(item: ast.expr) -> bool:
    return integer(item) is not None or (isinstance(item, ast.Constant) and (item.value is None or item.value is ...))


def _bounds(item: ast.expr) -> list[ast.expr]:
    parts = (item.lower, item.upper, item.step) if isinstance(item, ast.Slice) else ()
    return [p for p in parts if p is not None and any(isinstance(n, ast.Name) for n in walk(p))]
