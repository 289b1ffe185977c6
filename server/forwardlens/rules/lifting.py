"""Rewriting the expressions of one loop round for all rounds at once.

Each kind of expression has one rule that says how the result's dimensions follow from its operands'. Ranks come from
the operators that the run recorded at the same expression; whatever the run contradicts or does not tell is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from forwardlens.rules.batched import (
    Batched,
    Cut,
    Fixed,
    RefusedError,
    Value,
    arranged,
    common_right,
    fixed_text,
    indexed,
    same_layout,
    wrapped,
)
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.loops import Loop, same_axis, stop_is_count
from forwardlens.rules.operations import ELEMENTWISE, ELEMENTWISE_MODULES, JOINS, is_torch_function, torch_name
from forwardlens.rules.reducing import (
    ALONG,
    NEEDS_DIM,
    REDUCING,
    joined,
    leading,
    looked_up,
    placed,
    plain,
    product,
    reduced,
    round_dims,
)
from forwardlens.source.dataflow import METADATA, names_bound, names_read
from forwardlens.source.rewrite import splice
from forwardlens.source.tree import argument, dotted, integer

_BOOLEAN = frozenset(
    "gt ge lt le eq ne greater less logical_and logical_or logical_xor logical_not isnan isinf isfinite bool".split()
)
_LIKE = {"full_like": None, "zeros_like": "0", "ones_like": "1"}
# Operators of a module call whose result for a position depends on that position alone.
_POSITIONWISE = ELEMENTWISE_MODULES | {"aten::linear", "aten::layer_norm"}
_PURE_FUNCTIONS = frozenset(
    """zeros ones full empty tensor arange eye zeros_like ones_like full_like as_tensor finfo iinfo size dim numel view
    reshape unsqueeze squeeze transpose permute item new_zeros new_ones new_full new_tensor expand flatten""".split()
)
_VIEWS = frozenset({"unsqueeze", "squeeze", "transpose", "t", "view", "reshape"})
_PURE_BUILTINS = frozenset({"float", "int", "bool", "len", "min", "max", "abs", "range", "math"})


@dataclass
class Lifter:
    """Lifts the expressions of one loop. `values` grows with the temporaries of the round, in their order."""

    sites: Sites
    loop: Loop
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    # Names that a round binds; reading one before it is bound reads the previous round's value.
    bound: frozenset[str] = frozenset()
    # Whether the loop writes into tensors, so that it matters if a value shares memory with another.
    writes: bool = False

    def lift(self, node: ast.expr) -> Value:
        """The value of `node` for all rounds. Raises `RefusedError`."""
        if isinstance(node, ast.Name):
            return self._name(node)
        if not self.varies(node):
            return self._fixed(node)
        match node:
            case ast.BinOp():
                return self._binary(node)
            case ast.Compare():
                return self._compare(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Call():
                return self._call(node)
            case ast.Subscript():
                return self._subscript(node)
            case ast.Attribute():
                return self._attribute(node)
            case _:
                raise RefusedError(f"`{self._text(node)}` has no form for all rounds at once")

    # -- values that stay the same

    def varies(self, node: ast.AST) -> bool:
        return any(name in self.loop.variables or name in self.bound for name in names_read(node))

    def _fixed(self, node: ast.expr) -> Fixed:
        self._require_pure(node)
        atom = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant))
        return Fixed(self._text(node), 0 if isinstance(node, ast.Constant) or integer(node) is not None else None, atom)

    def _require_pure(self, node: ast.AST) -> None:
        """Refuse calls that might give another value, or do something, each time."""
        for call in (n for n in ast.walk(node) if isinstance(n, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield))):
            name = dotted(call.func) if isinstance(call, ast.Call) else None
            leaf = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else name
            known = leaf in ELEMENTWISE or leaf in _PURE_FUNCTIONS or leaf in _PURE_BUILTINS
            if not known and not (name or "").startswith("math."):
                raise RefusedError(f"`{self._text(call)}` may be different in every round")

    def _name(self, node: ast.Name) -> Value:
        if node.id == self.loop.index:
            raise RefusedError(f"`{node.id}` is used as a number")
        if node.id in self.loop.elements:
            return self._element(node.id)
        if node.id in self.values:
            return self.values[node.id]
        if node.id in self.bound:
            raise RefusedError(f"`{node.id}` carries a value from one round to the next")
        return Fixed(node.id, atom=True)

    def _element(self, name: str) -> Batched:
        element = self.loop.elements[name]
        base, axis = element.base, element.axis
        if self.varies(base):
            raise RefusedError("what the loop runs over changes inside it")
        self._require_pure(base)
        rank = self._iterated_rank(base, name)
        axis = axis + rank if axis < 0 else axis
        text, atom = self._text(base), not isinstance(base, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp))
        if element.partner is not None:
            cut = f": len({self._text(element.partner)})"
            whole, text, atom = Cut(text, atom, (cut, *[":"] * (rank - 1))), f"{wrapped(text, atom)}[{cut}]", True
            return Batched(text, rank, axis, tuple(range(1, rank)), atom, whole, view=True)
        slots = tuple(d for d in range(rank) if d != axis)
        return Batched(text, rank, axis, slots, atom, view=True)

    def _iterated_rank(self, base: ast.expr, name: str | None = None) -> int:
        """The rank of a tensor that the loop takes slices of, from the `unbind` that did it."""
        parent = self.sites.tree.parent(base)
        method = self.sites.tree.parent(parent) if isinstance(parent, ast.Attribute) else None
        for node in (base, parent, method):
            cost = self.sites.cost(node) if node is not None else None
            op = next((o for o in cost.ops if o.outermost and o.name == "aten::unbind"), None) if cost else None
            if cost is None or op is None or not op.shapes or not op.shapes[0]:
                continue
            zipped = isinstance(node, ast.Call) and dotted(node.func) == "zip"
            if not zipped or (op.shape_variants == 1 and op.calls >= 2 * cost.calls):
                return len(op.shapes[0])
            if op.calls >= 2 * cost.calls and name is not None:
                return self._rank_in_use(name) + 1
        raise RefusedError(f"`{self._text(base)}` is not known to be a tensor")

    def _rank_in_use(self, name: str) -> int:
        """The rank of a loop variable where it is the left operand of an operator."""
        for node in ast.walk(self.loop.node):
            left = node.left if isinstance(node, (ast.BinOp, ast.Compare)) else None
            shapes = self.sites.operands(node) if isinstance(left, ast.Name) and left.id == name else None
            if shapes is not None:
                return len(shapes[0])
            right = node.comparators[0] if isinstance(node, ast.Compare) else None
            right = node.right if isinstance(node, ast.BinOp) else right
            tensor = isinstance(left, ast.Name) and left.id in self.loop.elements
            if isinstance(right, ast.Name) and right.id == name and tensor:
                shapes = self.sites.operands(node)
                if shapes is not None:
                    return len(shapes[1])
        raise RefusedError(f"the run does not tell how many dimensions `{name}` has")

    # -- indexing

    def window(self, base: ast.expr, axis: int, rank: int | None) -> str:
        """The slice of `base` along `axis` that the loop covers: `:` for all of it."""
        loop = self.loop
        if loop.stop is None:
            return self._enumerated_window(base, axis)
        if not stop_is_count(loop.stop):
            raise RefusedError(f"`{self._text(loop.stop)}` is not certainly a number of rounds")
        if self.varies(loop.stop):
            raise RefusedError("the number of rounds changes inside the loop")
        if loop.start == 0 and same_axis(self.sites.tree, loop, base, axis, rank):
            return ":"
        stop = self._text(loop.stop)
        start = str(loop.start) if loop.start else ""
        simple = isinstance(loop.stop, (ast.Name, ast.Constant))
        return f"{start}:{stop}" if simple else f"{start} : {stop}".strip()

    def _enumerated_window(self, base: ast.expr, axis: int) -> str:
        elements = list(self.loop.elements.values())
        same = elements[0].partner is None and (dotted(base), axis) == (dotted(elements[0].base), elements[0].axis)
        if same and dotted(base) is not None:
            return ":"
        first = elements[0]
        if first.partner is not None:
            raise RefusedError("the shorter of two tensors decides how many rounds there are")
        counted = first.base
        if isinstance(counted, ast.Call) and isinstance(counted.func, ast.Attribute) and counted.func.attr == "tolist":
            counted = counted.func.value
        text = self._text(counted)
        return f": {text}.size({first.axis})" if first.axis else f": len({text})"

    def index(self, node: ast.Subscript) -> Batched:
        """`x[:, t]` with a fixed `x`: what the rounds together take from it."""
        items = index_items(node)
        rank = self.sites.base_rank(node)
        base_text = self._text(node.value)
        if rank is None:
            raise RefusedError(f"the run does not tell how many dimensions `{base_text}` has")
        return self.index_of_rank(node, items, rank)

    def index_of_rank(self, node: ast.Subscript, items: list[ast.expr], rank: int) -> Batched:
        texts: list[str] = []
        slots: list[int | None] = []
        axis = out = 0
        loop: int | None = None
        for item in self._expanded(items, rank):
            if isinstance(item, ast.Constant) and item.value is None:
                slots.append(None)
                continue
            if isinstance(item, ast.Name) and item.id == self.loop.index:
                if loop is not None:
                    raise RefusedError("the loop variable is used for two dimensions")
                loop = out
                texts.append(self.window(node.value, axis, rank))
                out += 1
            elif self._is_number(item):
                texts.append(self._text(item))
            elif isinstance(item, ast.Slice) and not self.varies(item):
                self._require_pure(item)
                texts.append(self._text_of_slice(item))
                slots.append(out)
                out += 1
            else:
                raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
            axis += 1
        if loop is None:
            raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
        atom = isinstance(node.value, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
        text = indexed(self._text(node.value), texts, atom=atom)
        cut = Cut(self._text(node.value), atom, tuple(texts)) if len(texts) == out else None
        return Batched(text, out, loop, tuple(slots), atom=True, cut=cut, view=True)

    def _expanded(self, items: list[ast.expr], rank: int) -> list[ast.expr]:
        """`items` with `...` written out and the dimensions that they leave out added."""
        used = sum(not _is_none(i) and not _is_ellipsis(i) for i in items)
        missing: list[ast.expr] = [ast.Slice() for _ in range(rank - used)]
        if used > rank:
            raise RefusedError("the run and the source disagree about dimensions")
        if not any(_is_ellipsis(i) for i in items):
            return [*items, *missing]
        cut = next(n for n, i in enumerate(items) if _is_ellipsis(i))
        return [*items[:cut], *missing, *items[cut + 1 :]]

    def _is_number(self, item: ast.expr) -> bool:
        """Whether an index certainly is a Python number: a literal, or the counter of a loop further out."""
        if integer(item) is not None:
            return True
        if not isinstance(item, ast.Name):
            return False
        for around in self.sites.tree.loops(self.loop.node):
            if isinstance(around, ast.For) and isinstance(around.iter, ast.Call):
                called = dotted(around.iter.func)
                target = around.target
                if called == "range" and isinstance(target, ast.Name) and target.id == item.id:
                    return True
        return False

    def _subscript(self, node: ast.Subscript) -> Value:
        if not self.varies(node.value):
            items = index_items(node)
            if len(items) == 1 and not self._is_loop_index(items[0]) and not isinstance(items[0], ast.Slice):
                return self._gather(node, items[0])
            self._require_pure(node.value)
            looked = [i for i in items if self._is_position(i)]
            return self._row_look_up(node, items, looked[0]) if len(looked) == 1 else self.index(node)
        value = self.lift(node.value)
        if isinstance(value, Fixed):
            raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
        looked = [i for i in index_items(node) if self._is_position(i)]
        if len(looked) == 1:
            return self._look_up(node, value, index_items(node), looked[0])
        if self.varies(node.slice):
            raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
        return self._index_batched(node, value)

    def _is_position(self, item: ast.expr) -> bool:
        """Whether an item of an index is computed in the round: a position, or a tensor of them."""
        return not isinstance(item, ast.Slice) and not self._is_loop_index(item) and self.varies(item)

    def _row_look_up(self, node: ast.Subscript, items: list[ast.expr], looked: ast.expr) -> Batched:
        """`x[b, ids[b]]`: in each round's slice of `x`, what the round's positions name."""
        loops = [n for n, i in enumerate(items) if self._is_loop_index(i)]
        rank = self.sites.base_rank(node)
        cost = self.sites.cost(node)
        seen = [o for o in cost.ops if o.name in {"aten::select", "aten::index"} and o.shapes] if cost else []
        rank = max((len(o.shapes[0]) for o in seen), default=rank or 0)
        if len(loops) != 1 or rank < len(items) or any(_is_ellipsis(i) or _is_none(i) for i in items):
            raise RefusedError(f"`{self._text(node)}` is not a plain look-up")
        whole = [i if self._is_loop_index(i) else ast.Slice() for i in items]
        value = self.index_of_rank(node, whole, rank)
        return self._look_up(node, value, [i for i in items if not self._is_loop_index(i)], looked)

    def _look_up(self, node: ast.Subscript, value: Batched, items: list[ast.expr], looked: ast.expr) -> Batched:
        cost = self.sites.cost(node)
        ids = self.lift(looked)
        if cost is None or isinstance(ids, Fixed) or ids.boolean or cost.op_calls("aten::nonzero", "aten::item"):
            # With `item` the index is one position, which selects; that has the same form.
            single = cost is not None and not cost.op_calls("aten::nonzero") and isinstance(ids, Batched)
            if not single or not isinstance(ids, Batched) or ids.slots or ids.boolean:
                raise RefusedError(f"`{self._text(node)}` is not a plain look-up")
        entries: list[str | Batched] = []
        for item in [*items, *[ast.Slice()] * (value.round_rank - len(items))]:
            if item is looked:
                entries.append(ids)
            elif isinstance(item, ast.Slice) and not self.varies(item):
                entries.append(self._text_of_slice(item))
            else:
                raise RefusedError(f"`{self._text(node)}` is not a plain look-up")
        if len(entries) > value.round_rank or None in value.slots:
            raise RefusedError("the run and the source disagree about dimensions")
        return looked_up(value, entries, self._numbers(value))

    def _is_loop_index(self, item: ast.expr) -> bool:
        return isinstance(item, ast.Name) and item.id == self.loop.index

    def _gather(self, node: ast.Subscript, item: ast.expr) -> Batched:
        """`table[ids[:, t]]`: look-ups along the first dimension of a fixed tensor."""
        op = self.sites.op(node, "aten::index")
        ids = self.lift(item)
        if op is None or not op.shapes or isinstance(ids, Fixed) or ids.boolean:
            raise RefusedError(f"`{self._text(node)}` is not a plain look-up")
        self._require_pure(node.value)
        ids = arranged(ids, ids.natural)
        extra = len(op.shapes[0]) - 1
        text = splice(self.sites.source, node, {item: ids.text})
        return Batched(text, ids.rank + extra, ids.loop, (*ids.slots, *range(ids.rank, ids.rank + extra)))

    def _index_batched(self, node: ast.Subscript, value: Batched) -> Batched:
        """A fixed index into a round's value: `row[None]`, `row[:, 0]`, `row[..., :3]`."""
        cuts: dict[int, str] = {}
        gone: set[int] = set()
        slots: list[int | None] = []
        axis = 0
        for item in self._expanded(index_items(node), value.round_rank):
            if _is_none(item):
                slots.append(None)
                continue
            slot = value.slots[axis]
            axis += 1
            if isinstance(item, ast.Slice):
                cut = self._text_of_slice(item)
                if cut != ":" and slot is None:
                    raise RefusedError(f"`{self._text(node)}` cuts a dimension of size 1")
                slots.append(slot)
                if slot is not None:
                    cuts[slot] = cut
            elif integer(item) is not None:
                if slot is not None:
                    cuts[slot] = self._text(item)
                    gone.add(slot)
            else:
                raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
        text = indexed(value.text, [cuts.get(d, ":") for d in range(value.rank)], atom=value.atom)
        left = [d for d in range(value.rank) if d not in gone]
        return replace(
            value,
            text=text,
            atom=value.atom or text != value.text,
            cut=value.cut if text == value.text else None,
            rank=len(left),
            loop=left.index(value.loop),
            slots=tuple(None if s is None else left.index(s) for s in slots),
        )

    # -- elementwise work

    def elementwise(self, node: ast.expr, operands: Sequence[ast.expr], ranks: Sequence[int | None]) -> Batched:
        """`node` with all `operands` broadcast against each other. `ranks` are what the run saw, None if it did not."""
        values = [self.lift(operand) for operand in operands]
        return self.broadcast(node, operands, self._settled(node, values, ranks))

    def _settled(self, node: ast.expr, values: list[Value], ranks: Sequence[int | None]) -> list[Value]:
        """`values` with the ranks of the fixed ones filled in from the run, which must agree with the others."""
        known = list(ranks)
        if isinstance(node, (ast.BinOp, ast.Compare)) and len(known) == 2 and not self._agree(values, known):
            # With a Python number on the left, the tensor on the right runs the operator and comes first.
            known.reverse()
        if not self._agree(values, known):
            raise RefusedError(f"the run saw other dimensions at `{self._text(node)}`")
        return [
            replace(value, rank=rank) if isinstance(value, Fixed) and value.rank is None else value
            for value, rank in zip(values, known, strict=True)
        ]

    @staticmethod
    def _agree(values: Sequence[Value], ranks: Sequence[int | None]) -> bool:
        for value, rank in zip(values, ranks, strict=True):
            expected = value.round_rank if isinstance(value, Batched) else value.rank
            if rank is not None and expected is not None and rank != expected:
                return False
        return True

    def broadcast(self, node: ast.expr, operands: Sequence[ast.expr], values: Sequence[Value]) -> Batched:
        """The text of `node` with each operand in a shape that broadcasts, and the shape that comes out."""
        batched = [v for v in values if isinstance(v, Batched)]
        fixed = [v for v in values if isinstance(v, Fixed)]
        if not batched:
            raise RefusedError(f"`{self._text(node)}` does not vary")
        if same_layout(batched) and all(v.rank == 0 for v in fixed):
            # No dimension meets another one: any arrangement of the operands serves.
            parts = {o: _in_place_of(node, o, v.text, v.atom) for o, v in zip(operands, values, strict=True)}
            first = batched[0]
            return replace(
                first,
                text=self._spliced(node, parts),
                atom=_is_atom(node),
                boolean=False,
                fill=None,
                view=False,
                cut=None,
            )
        right = common_right(batched)
        parts: dict[ast.expr, str] = {}
        for operand, value in zip(operands, values, strict=True):
            if isinstance(value, Fixed):
                parts[operand] = _in_place_of(node, operand, fixed_text(value, right), atom=value.atom)
            else:
                put = arranged(value, right)
                parts[operand] = _in_place_of(node, operand, put.text, put.atom)
        rank = max(*(max(v.round_rank, right) for v in batched), *(v.rank or 0 for v in fixed), 0)
        loop = rank - right
        slots = tuple(d for d in range(rank + 1) if d != loop)
        return Batched(self._spliced(node, parts), rank + 1, loop, slots, atom=_is_atom(node))

    def _binary(self, node: ast.BinOp) -> Value:
        if isinstance(node.op, ast.MatMult):
            return self._product(node, (node.left, node.right))
        shapes = self.sites.operands(node)
        operands = (node.left, node.right)
        ranks = [len(s) for s in shapes] if shapes is not None else [None, None]
        # `1 / x` and the like run operators of one operand: with a number there is nothing to broadcast.
        number = any(isinstance(o, ast.Constant) for o in operands) and self.sites.cost(node) is not None
        if shapes is None and not number:
            raise RefusedError(f"`{self._text(node)}` is no tensor operation that the run saw")
        result = self.elementwise(node, operands, ranks)
        logical = isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.BitXor))
        if logical and all(_is_boolean(self.lift(o)) for o in operands):
            return replace(result, boolean=True)
        return result

    def _compare(self, node: ast.Compare) -> Value:
        shapes = self.sites.operands(node)
        if shapes is None:
            raise RefusedError(f"`{self._text(node)}` is no tensor comparison that the run saw")
        operands = (node.left, node.comparators[0])
        counters = [self._is_loop_index(o) for o in operands]
        if any(counters):
            return self._compare_with_counter(node, operands, counters[0], [len(s) for s in shapes])
        return replace(self.elementwise(node, operands, [len(s) for s in shapes]), boolean=True)

    def _compare_with_counter(
        self, node: ast.Compare, operands: tuple[ast.expr, ast.expr], first: bool, ranks: list[int]
    ) -> Value:
        """`t < lengths`: the counter becomes an `arange` on the same device."""
        other = operands[1 if first else 0]
        value = self.lift(other)
        if self.loop.stop is None or not stop_is_count(self.loop.stop):
            raise RefusedError("the number of rounds is not written in the source")
        if isinstance(value, Fixed):
            if max(ranks) == 0 or not value.atom:
                raise RefusedError(f"`{self._text(other)}` may be a number")
            value = replace(value, rank=max(ranks))
        start = f"{self.loop.start}, " if self.loop.start else ""
        counter = (
            f"{self.torch}.arange({start}{self._text(self.loop.stop)}, device={wrapped(value.text, value.atom)}.device)"
        )
        steps = Batched(counter, 1, 0, ())
        values = [steps, value] if first else [value, steps]
        return replace(self.broadcast(node, operands, values), boolean=True)

    def _unary(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            raise RefusedError("`not` asks for one truth value per round")
        value = self.lift(node.operand)
        result = self.elementwise(node, (node.operand,), (None,))
        return replace(result, boolean=isinstance(node.op, ast.Invert) and _is_boolean(value))

    # -- calls

    def _call(self, node: ast.Call) -> Value:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func)
        method = isinstance(node.func, ast.Attribute) and self.varies(node.func.value)
        library = self.is_library(node.func)
        if isinstance(node.func, ast.Attribute) and not method and not library and self._is_tensor_method(node):
            method = True
        if name is None or (not method and not library):
            return self._module(node)
        if any(self.varies(keyword.value) for keyword in node.keywords):
            raise RefusedError(f"`{self._text(node)}` has a keyword that changes from round to round")
        for keyword in node.keywords:
            self._require_pure(keyword.value)
            if keyword.arg in {"out", "inplace"}:
                raise RefusedError(f"`{self._text(node)}` writes into its argument")
        receiver = [node.func.value] if method and isinstance(node.func, ast.Attribute) else []
        operands = [*receiver, *node.args]
        if any(isinstance(o, ast.Starred) for o in operands):
            raise RefusedError(f"`{self._text(node)}` has a starred argument")
        if name in _LIKE and library:
            return self._like(node, name)
        if name in _VIEWS and operands:
            return self._view(name, node, operands)
        if name in {"embedding", "linear"} and library:
            return self._module(node)
        if name in JOINS and library:
            return self._join(node, name)
        if name in {"matmul", "mm", "bmm"} and len(operands) == 2 and not node.keywords:
            return self._product(node, (operands[0], operands[1]))
        if (name in REDUCING or name in ALONG) and operands and (method or self._is_reduction_of(node)):
            return self._along(name, node, operands)
        if name in {"gather", "index_select"} and len(operands) == 3 and not node.keywords:
            return self._gather_along(name, node, operands)
        flags = any(isinstance(o, ast.Constant) and isinstance(o.value, bool) for o in node.args)
        if name in ELEMENTWISE and not flags and (name != "where" or len(operands) == 3):
            return self._elementwise_call(node, name, operands)
        raise RefusedError(f"`{name}` is not known to work position by position")

    @property
    def torch(self) -> str:
        """The name of the module `torch` in this file."""
        name = torch_name(self.sites.tree.module)
        if name is None:
            raise RefusedError("the file does not import torch by a name")
        return name

    def is_library(self, func: ast.expr) -> bool:
        return is_torch_function(self.sites.tree.module, func)

    def _is_tensor_method(self, node: ast.Call) -> bool:
        """A known method of a fixed receiver, as in `photo.lerp(rows[t], 0.5)`; `self.relu(x)` is a module."""
        assert isinstance(node.func, ast.Attribute)
        return node.func.attr in ELEMENTWISE and dotted(node.func.value) != "self"

    def _elementwise_call(self, node: ast.Call, name: str, operands: list[ast.expr]) -> Value:
        ranks = self._argument_ranks(node, name, len(operands))
        converts = name in {"to", "type", "type_as", "float", "double", "half", "bfloat16", "long", "int", "bool"}
        if converts or name in {"contiguous", "clone", "detach"}:
            if any(self.varies(o) for o in operands[1:]):
                raise RefusedError(f"`{self._text(node)}` converts to what changes from round to round")
            value = self.lift(operands[0])
            if self.writes and isinstance(value, Batched) and value.view:
                raise RefusedError(f"`{self._text(node)}` may or may not be a copy of what the loop writes to")
            result = self.elementwise(node, operands[:1], [None])
        else:
            self._require_scalar_keywords(node, name, len(operands))
            result = self.elementwise(node, operands, ranks)
        return replace(result, boolean=name in _BOOLEAN)

    def _argument_ranks(self, node: ast.Call, name: str, count: int) -> list[int | None]:
        op = self.sites.op(node, f"aten::{name}")
        if op is None or len(op.shapes) < count:
            return [None] * count
        return [len(s) for s in op.shapes[:count]]

    def _require_scalar_keywords(self, node: ast.Call, name: str, count: int) -> None:
        """A tensor given by keyword would have to be broadcast too."""
        if all(isinstance(k.value, ast.Constant) or integer(k.value) is not None for k in node.keywords):
            return
        op = self.sites.op(node, f"aten::{name}")
        if op is None or any(op.shapes[count:]):
            raise RefusedError(f"`{self._text(node)}` may have a tensor among its keywords")

    def _like(self, node: ast.Call, name: str) -> Value:
        value = self.lift(node.args[0]) if node.args else Fixed("")
        if isinstance(value, Fixed):
            raise RefusedError(f"`{self._text(node)}` does not vary")
        fill = _LIKE[name]
        if fill is None:
            given = argument(node, 1, "fill_value")
            if given is None or self.varies(given):
                raise RefusedError(f"`{self._text(node)}` fills with another value in every round")
            self._require_pure(given)
            fill = self._text(given)
        # A dtype of its own would be lost when only the scalar is kept.
        kept = fill if not any(k.arg != "fill_value" for k in node.keywords) else None
        text = self._spliced(node, {node.args[0]: value.text})
        return replace(value, text=text, atom=True, fill=kept, boolean=False, view=False, cut=None)

    def _module(self, node: ast.Call) -> Value:
        """`self.word(ids)`, `F.embedding(ids, w)`, `self.mix(row)`: known by the operators that the call ran."""
        if self.varies(node.func) or not node.args:
            raise RefusedError(f"`{self._text(node.func)}` is another function in every round")
        if any(self.varies(o) for o in [*node.args[1:], *(k.value for k in node.keywords)]):
            raise RefusedError(f"`{self._text(node)}` has several arguments that change from round to round")
        if any(k.arg in {"max_norm", "scale_grad_by_freq", "inplace"} for k in node.keywords):
            raise RefusedError(f"`{self._text(node)}` is not the same for all positions at once")
        ran = self.sites.outermost(node)
        value = self.lift(node.args[0])
        if isinstance(value, Fixed) or not ran:
            raise RefusedError(f"the run does not tell what `{self._text(node.func)}` does")
        lookup = "aten::embedding" in ran
        if not ran - {"aten::embedding"} <= _POSITIONWISE:
            raise RefusedError(f"`{self._text(node.func)}` is not known to work position by position")
        norm = self.sites.op(node, "aten::layer_norm")
        if norm is not None and len(norm.shapes[2] if len(norm.shapes) > 2 else ()) != 1:
            raise RefusedError(f"`{self._text(node.func)}` may normalise several dimensions")
        if lookup:
            value = arranged(value, value.natural)
            extra = (value.rank,)
        else:
            value = self._last_dimension_kept(value)
            extra = ()
        text = self._spliced(node, {node.args[0]: value.text})
        return Batched(text, value.rank + len(extra), value.loop, (*value.slots, *extra))

    @staticmethod
    def _last_dimension_kept(value: Batched) -> Batched:
        """A layer works on the last dimension: it must stay a slot of the round's value."""
        if not value.slots:
            raise RefusedError("a layer needs a dimension to work on")
        return arranged(value, value.natural if value.natural >= 1 else value.round_rank)

    # -- along dimensions

    def _is_reduction_of(self, node: ast.Call) -> bool:
        return self.is_library(node.func) and bool(node.args)

    def _along(self, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        """`row.sum(-1)`, `torch.softmax(row, dim=0)`, `row.mean()`."""
        value = self.lift(operands[0])
        if isinstance(value, Fixed):
            raise RefusedError(f"`{self._text(operands[0])}` does not vary")
        keywords = {k.arg: k.value for k in node.keywords}
        dim = keywords.get("dim") or (operands[1] if len(operands) == 2 and name != "norm" else None)
        keep = keywords.get("keepdim")
        plain_keep = keep is None or (isinstance(keep, ast.Constant) and isinstance(keep.value, bool))
        unknown = len(operands) - (2 if dim is not None and "dim" not in keywords else 1)
        if set(keywords) - {"dim", "keepdim"} or unknown or not plain_keep:
            raise RefusedError(f"`{self._text(node)}` has an option that is not known to work for all rounds at once")
        if (dim is None and (name in NEEDS_DIM or keep is not None or name == "normalize")) or (
            dim is not None and name in {"max", "min"}
        ):
            raise RefusedError(f"`{self._text(node)}` gives more than one value per position")
        listed = list(dim.elts) if isinstance(dim, (ast.Tuple, ast.List)) else None if dim is None else [dim]
        numbers = None if listed is None else [integer(d) for d in listed]
        if numbers is not None and any(n is None for n in numbers):
            raise RefusedError(f"`{self._text(node)}` has no plain dimension")
        given = None if numbers is None else [n for n in numbers if n is not None]
        if name == "norm" and given is None and value.round_rank > 1:
            raise RefusedError(f"`{self._text(node)}` flattens the round's value")
        dims = round_dims(value, given)
        put = plain(value)
        text = self._along_text(name, node, operands[0], put, dim, dims)
        kept = name in ALONG or (isinstance(keep, ast.Constant) and keep.value is True)
        result = reduced(put, text, dims, kept)
        return replace(result, boolean=name in {"any", "all"})

    def _along_text(
        self,
        name: str,
        node: ast.Call,
        operand: ast.expr,
        put: Batched,
        dim: ast.expr | None,
        dims: Sequence[int],
    ) -> str:
        if dim is None:
            method = {"max": "amax", "min": "amin"}.get(name, name)
            places = placed(put, dims, negative=all((s or 0) > put.loop for s in put.slots))
            shown = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
            return f"{wrapped(put.text, put.atom)}.{method}({'dim=' if name == 'norm' else ''}{shown})"
        listed = list(dim.elts) if isinstance(dim, (ast.Tuple, ast.List)) else [dim]
        parts: dict[ast.expr, str] = {operand: _in_place_of(node, operand, put.text, put.atom)}
        for entry, d in zip(listed, dims, strict=True):
            negative = (integer(entry) or 0) < 0
            parts[entry] = str(placed(put, [d], negative)[0])
        return self._spliced(node, parts)

    def _product(self, node: ast.expr, operands: Sequence[ast.expr]) -> Value:
        values = [self.lift(o) for o in operands]
        op = self.sites.op(node, "aten::matmul", "aten::mm", "aten::bmm", "aten::mv")
        if op is None or len(op.shapes) < 2:
            raise RefusedError(f"`{self._text(node)}` is no matrix product that the run saw")
        ranks = [len(s) for s in op.shapes[:2]]
        if not self._agree(values, ranks):
            raise RefusedError(f"the run saw other dimensions at `{self._text(node)}`")
        left, right, rank = product(values, ranks)
        return leading(f"{left} @ {right}", rank, atom=False)

    def _join(self, node: ast.Call, name: str) -> Value:
        given = argument(node, 0, "tensors")
        dim = argument(node, 1, "dim")
        number = 0 if dim is None else integer(dim)
        if not isinstance(given, (ast.List, ast.Tuple)) or number is None or any(k.arg != "dim" for k in node.keywords):
            raise RefusedError(f"`{self._text(node)}` is not plain")
        texts, place, rank = joined([self.lift(e) for e in given.elts], number, name == "stack")
        return leading(f"{self._text(node.func)}([{', '.join(texts)}], dim={place})", rank)

    def _gather_along(self, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        """`row.gather(0, ids[b])` and `row.index_select(0, ids[b])`."""
        value, ids, dim = self.lift(operands[0]), self.lift(operands[2]), integer(operands[1])
        if isinstance(value, Fixed) or isinstance(ids, Fixed) or dim is None:
            raise RefusedError(f"`{self._text(node)}` does not look up in a round's value by a round's positions")
        at = round_dims(value, [dim])[0]
        if name == "index_select":
            items: list[str | Batched] = [":"] * value.round_rank
            items[at] = ids
            return looked_up(value, items, self._numbers(value))
        if ids.round_rank != value.round_rank:
            raise RefusedError("the run and the source disagree about dimensions")
        one, other = plain(value, value.round_rank), plain(ids, ids.round_rank)
        return leading(f"{wrapped(one.text, one.atom)}.gather({at + 1}, {other.text})", value.round_rank)

    def _numbers(self, value: Batched) -> str:
        """The numbers of the rounds, as a tensor beside a round's value."""
        text = wrapped(value.text, value.atom)
        stem = wrapped(value.cut.stem, value.cut.atom) if value.cut is not None else text
        bare = stem if value.cut is not None and value.cut.slices[value.loop] == ":" else text
        if self.loop.index is not None and self.loop.stop is not None and bare != stem and not self.loop.start:
            return f"{self.torch}.arange({self._text(self.loop.stop)}, device={stem}.device)"
        return f"{self.torch}.arange({bare}.size({value.loop}), device={stem}.device)"

    # -- views

    def _view_value(self, operands: Sequence[ast.expr]) -> Batched:
        value = self.lift(operands[0])
        if isinstance(value, Fixed) or any(self.varies(o) for o in operands[1:]):
            raise RefusedError("the shape changes from round to round")
        return value

    def _view(self, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        match name:
            case "unsqueeze":
                return self._unsqueeze(node, operands)
            case "squeeze":
                return self._squeeze(node, operands)
            case "transpose" | "t":
                return self._transpose(node, operands)
            case _:
                return self._reshape(node, operands)

    def _unsqueeze(self, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        value = self._view_value(operands)
        dim = integer(operands[1]) if len(operands) == 2 else None
        if dim is None or not -value.round_rank - 1 <= dim <= value.round_rank:
            raise RefusedError(f"`{self._text(node)}` is not plain")
        at = dim if dim >= 0 else dim + value.round_rank + 1
        return replace(value, slots=(*value.slots[:at], None, *value.slots[at:]))

    def _squeeze(self, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        value = self._view_value(operands)
        dim = integer(operands[1]) if len(operands) == 2 else None
        if dim is None or not -value.round_rank <= dim < value.round_rank or value.slots[dim] is not None:
            raise RefusedError(f"`{self._text(node)}` may drop a dimension that is not 1")
        at = dim % value.round_rank
        return replace(value, slots=(*value.slots[:at], *value.slots[at + 1 :]))

    def _reshape(self, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        """`view(-1, 1, 1)` and the like, which only add dimensions of size 1."""
        value = self._view_value(operands)
        sizes = operands[1:]
        if len(sizes) == 1 and isinstance(sizes[0], (ast.Tuple, ast.List)):
            sizes = sizes[0].elts
        own = [s for s in value.slots if s is not None]
        others = [s for s in sizes if integer(s) != 1]
        if len(others) != len(own) or len(own) > 1 or any(isinstance(s, ast.Starred) for s in sizes):
            raise RefusedError(f"`{self._text(node)}` reshapes a round's value")
        left = iter(own)
        return replace(value, slots=tuple(None if integer(s) == 1 else next(left) for s in sizes))

    def _transpose(self, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        value = self._view_value(operands)
        dims = [integer(o) for o in operands[1:]] or [0, 1]
        slots = list(value.slots)
        if len(dims) != 2 or any(d is None or not -len(slots) <= d < len(slots) for d in dims):
            raise RefusedError(f"`{self._text(node)}` is not plain")
        one, other = (d for d in dims if d is not None)
        slots[one], slots[other] = slots[other], slots[one]
        return replace(value, slots=tuple(slots))

    # -- small things

    def _attribute(self, node: ast.Attribute) -> Value:
        value = self.lift(node.value)
        if isinstance(value, Batched) and node.attr in {"dtype", "device"}:
            return Fixed(f"{wrapped(value.text, value.atom)}.{node.attr}", 0, atom=True)
        if isinstance(value, Fixed) or node.attr in METADATA or node.attr != "T" or value.round_rank != 2:
            raise RefusedError(f"`{self._text(node)}` is not plain")
        return replace(value, slots=value.slots[::-1])

    def _text(self, node: ast.AST) -> str:
        if isinstance(node, (ast.expr, ast.stmt)) and hasattr(node, "lineno"):
            return self.sites.tree.text(node)
        return ":"

    def _text_of_slice(self, item: ast.Slice) -> str:
        return self._text(item) if hasattr(item, "lineno") else ":"

    def _spliced(self, node: ast.expr, parts: Mapping[ast.expr, str]) -> str:
        return splice(self.sites.source, node, parts)


def _in_place_of(node: ast.expr, operand: ast.expr, text: str, atom: bool) -> str:
    """`text` as it may stand where `operand` stood in `node`.

    Text made from an operator keeps the parentheses that the source has around it. Where the source had a name, an
    index or a call, there are none yet.
    """
    enclosed = isinstance(node, ast.Call) and operand in node.args
    return text if atom or enclosed or not _is_atom(operand) else f"({text})"


def _is_none(item: ast.expr) -> bool:
    return isinstance(item, ast.Constant) and item.value is None


def _is_ellipsis(item: ast.expr) -> bool:
    return isinstance(item, ast.Constant) and item.value is Ellipsis


def _is_atom(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))


def _is_boolean(value: Value) -> bool:
    return isinstance(value, Batched) and value.boolean


def lifter_for(sites: Sites, loop: Loop) -> Lifter:
    """A lifter at the start of a round: nothing that the round binds has a value yet."""
    body = loop.node.body if isinstance(loop.node, ast.For) else []
    bound = frozenset(name for statement in body for name in names_bound(statement))
    return Lifter(sites, loop, {}, bound - loop.variables if not bound & loop.variables else bound)
