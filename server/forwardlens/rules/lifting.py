"""Rewriting the expressions of one loop round for all rounds at once.

Each kind of expression has one rule that says how the result's dimensions follow from its operands'. Ranks come from
the operators that the run recorded at the same expression; whatever the run contradicts or does not tell is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from forwardlens.rules.batched import (
    Batched,
    Cut,
    Fixed,
    RefusedError,
    Value,
    arranged,
    common_right,
    concatenated,
    fixed_text,
    indexed,
    live_loops,
    loop_dims,
    ordered,
    reduced_over_last,
    same_layout,
    seen_in,
    spread,
    stacked,
    without_leading,
    wrapped,
)
from forwardlens.rules.callers import function_of
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.loops import Element, Loop, loop_of, same_axis, same_length, sliced, stop_is_count
from forwardlens.rules.operations import (
    ELEMENTWISE,
    ELEMENTWISE_MODULES,
    JOINS,
    LOSSES,
    is_torch_function,
    torch_name,
)
from forwardlens.rules.reducing import (
    ALONG,
    NEEDS_DIM,
    REDUCING,
    between,
    joined,
    leading,
    looked_up,
    placed,
    plain,
    product,
    reduced,
    round_dims,
    standing,
)
from forwardlens.rules.windows import Lengths, marked
from forwardlens.source.dataflow import (
    METADATA,
    bindings,
    changes,
    definition,
    fresh_name,
    names_bound,
    names_read,
    overlap,
)
from forwardlens.source.rewrite import splice
from forwardlens.source.tree import Function, argument, dotted, integer

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
    """Lifts the expressions of a round of loops inside each other, outermost first.

    `values` grows with the temporaries of the round, in their order, `lists` with the lists that inner loops fill.
    """

    sites: Sites
    loops: tuple[Loop, ...]
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    lists: dict[str, Batched] = field(default_factory=dict[str, Batched])
    # Lines that have to come before what is being lifted, and the names that they give values to.
    before: list[str] = field(default_factory=list[str])
    # The parameters of a helper that stand for a name or a counter of the loop's function.
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    lengths: Lengths = field(default_factory=Lengths)
    # What lifts the loop's own function, where this lifts a helper: loops' heads are written there.
    caller: Lifter | None = None
    # The names of lists of slices that rounds were found to take from.
    lists_read: set[str] = field(default_factory=set[str])
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
            case ast.NamedExpr() if node.target.id in self.values:
                return self.values[node.target.id]
            case _:
                raise RefusedError(f"`{self._text(node)}` has no form for all rounds at once")

    # -- values that stay the same

    def varies(self, node: ast.AST) -> bool:
        return any(self._own_name(name) in self.variables or name in self.bound for name in names_read(node))

    def _own_name(self, name: str) -> str:
        return self.renamed.get(name, name)

    @property
    def depth(self) -> int:
        return len(self.loops)

    @property
    def loop(self) -> Loop:
        """The innermost loop."""
        return self.loops[-1]

    @property
    def home(self) -> Lifter:
        return self.caller or self

    def stop_of(self, loop: Loop) -> str:
        """The text of the number that a loop counts to. Raises `RefusedError` if it is not plain."""
        if loop.stop is None or not stop_is_count(loop.stop) or self.home.varies(loop.stop):
            raise RefusedError("the number of rounds is not written in the source")
        return self.home.text_of(loop.stop)

    def meet(self, values: Iterable[Value]) -> None:
        """Note that values are operands of one operator."""
        self.lengths.meet([_key(loop) for loop in self.loops], [v for v in values if isinstance(v, Batched)])

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for loop in self.loops for name in loop.variables)

    def deeper(self, loop: Loop) -> Lifter:
        """A lifter for the rounds of a loop inside these."""
        values = {n: _one_loop_more(v) if isinstance(v, Batched) else v for n, v in self.values.items()}
        inner = frozenset(name for statement in loop.body for name in names_bound(statement))
        bound = self.bound | inner - loop.variables
        return replace(self, loops=(*self.loops, loop), values=values, lists={}, bound=bound)

    def _fixed(self, node: ast.expr) -> Fixed:
        self.require_pure(node)
        atom = isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call, ast.Constant))
        return Fixed(self._text(node), 0 if isinstance(node, ast.Constant) or integer(node) is not None else None, atom)

    def require_pure(self, node: ast.AST) -> None:
        """Refuse calls that might give another value, or do something, each time."""
        for call in (n for n in ast.walk(node) if isinstance(n, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield))):
            name = dotted(call.func) if isinstance(call, ast.Call) else None
            leaf = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else name
            known = leaf in ELEMENTWISE or leaf in _PURE_FUNCTIONS or leaf in _PURE_BUILTINS
            if not known and not (name or "").startswith("math."):
                raise RefusedError(f"`{self._text(call)}` may be different in every round")

    def _name(self, node: ast.Name) -> Value:
        if node.id in self.values:
            return self.values[node.id]
        name = self._own_name(node.id)
        if name in self._counters:
            raise RefusedError(f"`{node.id}` is used as a number")
        for depth, loop in enumerate(self.loops):
            if name in loop.elements:
                return self._element(depth, name)
        if node.id in self.bound:
            raise RefusedError(f"`{node.id}` carries a value from one round to the next")
        return Fixed(name, atom=True)

    @property
    def _counters(self) -> dict[str, int]:
        """The loops' counters, with the number of their loop."""
        return {loop.index: depth for depth, loop in enumerate(self.loops) if loop.index is not None}

    def _element(self, depth: int, name: str) -> Batched:
        element = self.loops[depth].elements[name]
        base, axis = element.base, element.axis
        if self.varies(base):
            return self._element_of_round(depth, element)
        self.require_pure(base)
        if element.kept or element.pieces is not None:
            rank = self._rank_of_cut(base)
        else:
            rank = self._iterated_rank(base, name)
        axis = axis + rank if axis < 0 else axis
        text, atom = self._text(base), not isinstance(base, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp))
        if element.pieces is not None:
            if self.varies(element.pieces):
                raise RefusedError("the number of pieces changes inside the loop")
            pieces = f"{wrapped(text, atom)}.unflatten({axis}, ({self._text(element.pieces)}, -1))"
            own = tuple(d for d in range(rank + 1) if d != axis)
            return Batched(pieces, rank + 1, self._only(depth, axis), own, view=True)
        if element.partners:
            cut = self._shortest(self.loops[depth], element)
            items = [*[":"] * axis, cut, *[":"] * (rank - 1 - axis)]
            own = tuple(d for d in range(rank) if d != axis)
            whole = Cut(text, atom, (*items,))
            return Batched(indexed(text, items, atom=atom), rank, self._only(depth, axis), own, cut=whole, view=True)
        slots = tuple(None if d == axis else d for d in range(rank) if d != axis or element.kept)
        return Batched(text, rank, self._only(depth, axis), slots, atom, view=True)

    def _element_of_round(self, depth: int, element: Element) -> Batched:
        """A slice of what an outer loop gives: `for word in row` inside `for row in x`."""
        value = self.lift(element.base)
        if isinstance(value, Fixed) or element.partners or element.kept or element.pieces is not None:
            raise RefusedError("what the loop runs over changes inside it")
        if value.loops[depth] is not None or not -value.round_rank <= element.axis < value.round_rank:
            raise RefusedError("what the loop runs over changes inside it")
        axis = element.axis % value.round_rank
        along = value.slots[axis]
        if along is None:
            raise RefusedError("a loop runs over a dimension of size 1")
        loops = tuple(along if k == depth else d for k, d in enumerate(value.loops))
        return replace(value, loops=loops, slots=(*value.slots[:axis], *value.slots[axis + 1 :]))

    def _shortest(self, loop: Loop, element: Element) -> str:
        """The slice that cuts a tensor of a `zip` to the shortest of the others."""
        lengths = [
            f"{wrapped(self._text(base), _is_atom(base))}.size({axis})" if axis else f"len({self._text(base)})"
            for base, axis in element.partners
        ]
        cut = f": {lengths[0]}" if len(lengths) == 1 else f": min({', '.join(lengths)})"
        every = [(element.base, element.axis), *element.partners]
        around = self.sites.tree.parent(element.base)
        op = self.sites.op(around, "aten::unbind") if around is not None else None
        self.lengths.shapes[_key(loop)] = op.shape_variants if op is not None else 0
        self.lengths.zipped[_key(loop)] = {f"{_key(loop)}|{self._text(base)}.{axis}" for base, axis in every}
        return marked(_key(loop), f"{self._text(element.base)}.{element.axis}", cut)

    def _only(self, depth: int, dim: int) -> tuple[int | None, ...]:
        """The loops' dimensions of a value that changes in one loop alone."""
        return tuple(dim if k == depth else None for k in range(self.depth))

    def _rank_of_cut(self, base: ast.expr) -> int:
        """The rank of a tensor that `split` or `chunk` cuts, from the operator that did it."""
        parent = self.sites.tree.parent(base)
        method = self.sites.tree.parent(parent) if isinstance(parent, ast.Attribute) else parent
        op = self.sites.op(method, "aten::split", "aten::chunk") if method is not None else None
        if op is None or not op.shapes or not op.shapes[0]:
            raise RefusedError(f"the run does not tell how many dimensions `{self._text(base)}` has")
        return len(op.shapes[0])

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
        """The rank of a loop variable where it is an operand of an operator, in the loop or in a helper."""
        rank = self._rank_in(self.loops[0].node, name)
        if rank is None:
            raise RefusedError(f"the run does not tell how many dimensions `{name}` has")
        return rank

    def _rank_in(self, where: ast.AST, name: str) -> int | None:
        for node in ast.walk(where):
            left = node.left if isinstance(node, (ast.BinOp, ast.Compare)) else None
            shapes = self.sites.operands(node) if isinstance(left, ast.Name) and left.id == name else None
            if shapes is not None:
                return len(shapes[0])
            right = node.comparators[0] if isinstance(node, ast.Compare) else None
            right = node.right if isinstance(node, ast.BinOp) else right
            tensor = isinstance(left, ast.Name) and any(left.id in loop.elements for loop in self.loops)
            # A number on the left would have made the tensor on the right the first operand.
            tensor = tensor or (left is not None and bool(self.sites.outermost(left) - {"aten::item"}))
            if isinstance(right, ast.Name) and right.id == name and tensor:
                shapes = self.sites.operands(node)
                if shapes is not None:
                    return len(shapes[1])
            rank = self._rank_of_argument(node, name) if isinstance(node, ast.Call) else None
            if rank is not None:
                return rank
            if isinstance(node, ast.Slice) and name in {dotted(b) for b in (node.lower, node.upper) if b is not None}:
                return 0
            if isinstance(node, ast.Subscript) and dotted(node.value) == name:
                rank = self.sites.base_rank(node)
                if rank is not None:
                    return rank
        for call in (n for n in ast.walk(where) if isinstance(n, ast.Call)):
            function = function_of(self.sites.tree, call)
            given = (
                None if function is None else _arguments(function, call, method=isinstance(call.func, ast.Attribute))
            )
            for parameter, value in (given or {}).items():
                rank = self._rank_in(function, parameter) if function is not None and dotted(value) == name else None
                if rank is not None:
                    return rank
        return None

    def _rank_of_argument(self, call: ast.Call, name: str) -> int | None:
        """The rank of a name that a call's only operator takes first, a look-up second."""
        method = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == name
        cost = self.sites.cost(call)
        ops = [o for o in cost.ops if o.outermost] if cost is not None else []
        if len(ops) != 1 or not (method or (call.args and dotted(call.args[0]) == name)):
            return None
        at = 1 if ops[0].name == "aten::embedding" else 0
        known = ops[0].name.removeprefix("aten::") in ELEMENTWISE | REDUCING | ALONG or ops[0].name in _POSITIONWISE
        return len(ops[0].shapes[at]) if (at or known) and len(ops[0].shapes) > at else None

    # -- indexing

    def window(self, loop: Loop, base: ast.expr, axis: int, rank: int | None, shift: int = 0) -> str:
        """The slice of `base` along `axis` that the loop's counter plus `shift` covers: `:` for all of it.

        One that is not known to leave something out is marked: it may turn out to be all of it too.
        """
        if loop.stop is None:
            if shift:
                raise RefusedError("the loop counts the slices of another tensor")
            return self._enumerated_window(loop, self._in_caller(base), axis)
        stop, more = _constant_apart(loop.stop)
        if not stop_is_count(stop):
            raise RefusedError(f"`{self.home.text_of(loop.stop)}` is not certainly a number of rounds")
        if self.home.varies(stop):
            raise RefusedError("the number of rounds changes inside the loop")
        start, beyond = loop.start + shift, more + shift
        if start < 0:
            raise RefusedError(f"the first round reads `{self._text(base)}` from its end")
        step = f":{loop.step}" if loop.step > 1 else ""
        first = str(start) if start else ""
        if same_axis(self.sites.tree, replace(loop, stop=stop), self._in_caller(base), axis, rank):
            if beyond > 0:
                raise RefusedError(f"a round reads beyond the end of `{self._text(base)}`")
            return f"{first}:{beyond or ''}{step}"
        if beyond < 0:
            raise RefusedError(f"`{self.home.text_of(loop.stop)}` is not certainly a number of rounds")
        text = f"{self.home.text_of(stop)} + {beyond}" if beyond else self.home.text_of(stop)
        simple = not beyond and isinstance(stop, (ast.Name, ast.Constant))
        cut = f"{first}:{text}{step}" if simple or step else f"{first} : {text}".strip()
        whole = not first and not step and not shift
        return marked(_key(loop), f"{self._text(base)}.{axis}", cut) if whole else cut

    def _enumerated_window(self, loop: Loop, base: ast.expr, axis: int) -> str:
        elements = list(loop.elements.values())
        first = elements[0]
        if first.pieces is not None:
            return f": {self.home.text_of(first.pieces)}"
        if first.partners:
            raise RefusedError("the shorter of two tensors decides how many rounds there are")
        counted = first.base
        if same_length(self.sites.tree, loop, (base, axis), (counted, first.axis)):
            return ":"
        if self.home.varies(counted):
            raise RefusedError("the number of rounds changes inside the loop")
        if isinstance(counted, ast.Call) and isinstance(counted.func, ast.Attribute) and counted.func.attr == "tolist":
            counted = counted.func.value
        text = self.home.text_of(counted)
        cut = f": {text}.size({first.axis})" if first.axis else f": len({text})"
        return marked(_key(loop), f"{ast.unparse(base)}.{axis}", cut)

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
        blocks: list[str] = []
        loops: list[int | None] = [None] * self.depth
        axis = out = 0
        for item in self._expanded(items, rank):
            if _is_none(item):
                slots.append(None)
                continue
            counted, block = self._counted(item), self._block(item)
            if counted is not None or block is not None:
                depth = counted.depth if counted is not None else block.depth if block is not None else 0
                if loops[depth] is not None:
                    raise RefusedError("the loop variable is used for two dimensions")
                loops[depth] = out
                out += 1
                if counted is not None:
                    texts.append(self.window(self.loops[depth], node.value, axis, rank, counted.shift))
                    self._see_length(node, self.loops[depth], texts[-1], axis, rank)
                    slots += [None] if counted.kept else []
                elif block is not None:
                    texts.append(f": {block.count} * {block.width}")
                    blocks.append(f".unflatten({out - 1}, ({block.count}, {block.width}))")
                    slots.append(out)
                    out += 1
            elif self._is_number(item):
                texts.append(self._text(item))
            elif isinstance(item, ast.Slice) and not self.varies(item):
                self.require_pure(item)
                texts.append(self._text(item))
                slots.append(out)
                out += 1
            else:
                raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
            axis += 1
        if not any(loop is not None for loop in loops):
            raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
        atom = _is_atom(node.value)
        text = indexed(self._text(node.value), texts, atom=atom)
        if blocks:
            return Batched(f"{text}{''.join(blocks)}", out, tuple(loops), tuple(slots), view=True)
        cut = Cut(self._text(node.value), atom, tuple(texts)) if len(texts) == out else None
        return Batched(text, out, tuple(loops), tuple(slots), atom=True, cut=cut, view=True)

    def _see_length(self, node: ast.Subscript, loop: Loop, window: str, axis: int, rank: int) -> None:
        """Note how long the run saw an axis that a loop's counter goes along."""
        cost = self.sites.cost(node)
        lengths = [o.shapes[0][axis] for o in cost.ops if o.shapes and len(o.shapes[0]) == rank] if cost else []
        if len(set(lengths)) == 1 and (window == ":" or not window.startswith(":")):
            self.lengths.see(_key(loop), window, lengths[0])

    def _counted(self, item: ast.expr) -> _Counted | None:
        """`t`, `t + 1`, `t - 1` and `t : t + 1` for a loop's counter `t`."""
        if isinstance(item, ast.Slice):
            lower, upper = (None if b is None else self._counted(b) for b in (item.lower, item.upper))
            if lower is None or upper is None or item.step is not None or lower.depth != upper.depth:
                return None
            return replace(lower, kept=True) if upper.shift == lower.shift + 1 else None
        name, shift = _constant_apart(item)
        plain = isinstance(name, ast.Name) and name.id not in self.values
        depth = self._counters.get(self._own_name(name.id)) if isinstance(name, ast.Name) and plain else None
        return None if depth is None else _Counted(depth, shift)

    def _block(self, item: ast.expr) -> _Block | None:
        """`h * d : (h + 1) * d`: the counter's block of a dimension."""
        if not isinstance(item, ast.Slice) or item.lower is None or item.upper is None or item.step is not None:
            return None
        if not isinstance(item.lower, ast.BinOp) or not isinstance(item.lower.op, ast.Mult):
            return None
        for counter, width in ((item.lower.left, item.lower.right), (item.lower.right, item.lower.left)):
            counted = self._counted(counter)
            if counted is None or counted.shift or self.varies(width) or not _ends_block(item.upper, counter, width):
                continue
            loop = self.loops[counted.depth]
            if loop.stop is None or loop.start or loop.step > 1 or self.home.varies(loop.stop):
                return None
            self.require_pure(width)
            count, size = (
                lifter.text_of(n) if _is_atom(n) or isinstance(n, ast.Constant) else f"({lifter.text_of(n)})"
                for lifter, n in ((self.home, loop.stop), (self, width))
            )
            return _Block(counted.depth, count, size)
        return None

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

    def is_counted(self, item: ast.expr) -> bool:
        """Whether an item of an index is a position, or a block, that a loop's counter gives."""
        return self._counted(item) is not None or self._block(item) is not None

    def _is_number(self, item: ast.expr) -> bool:
        """Whether an index certainly is a Python number: a literal, or the counter of a loop further out."""
        if integer(item) is not None:
            return True
        if not isinstance(item, ast.Name):
            return False
        for around in self.sites.tree.loops(self.loops[0].node):
            if isinstance(around, ast.For) and isinstance(around.iter, ast.Call):
                called = dotted(around.iter.func)
                target = around.target
                if called == "range" and isinstance(target, ast.Name) and target.id == item.id:
                    return True
        return False

    def _subscript(self, node: ast.Subscript) -> Value:
        if not self.varies(node.value):
            items = index_items(node)
            listed = self._listed_slice(node, items)
            if listed is not None:
                return listed
            if len(items) == 1 and not self._is_loop_index(items[0]) and not isinstance(items[0], ast.Slice):
                return self._gather(node, items[0])
            self.require_pure(node.value)
            looked = [i for i in items if self._is_position(i)]
            return self._row_look_up(node, items, looked[0]) if len(looked) == 1 else self.index(node)
        value = self.lift(node.value)
        if isinstance(value, Fixed):
            raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
        looked = [i for i in index_items(node) if self._is_position(i)]
        if len(looked) == 1:
            return self._look_up(node, value, index_items(node), looked[0])
        return self._index_batched(node, value)

    def _listed_slice(self, node: ast.Subscript, items: list[ast.expr]) -> Batched | None:
        """`columns[t]` where `columns = x.unbind(1)`."""
        function = self.loops[0].function
        counted = self._counted(items[0]) if len(items) == 1 else None
        name = node.value.id if isinstance(node.value, ast.Name) else None
        statement = definition(self.sites.tree, function, name) if name is not None and counted is not None else None
        if statement is None or counted is None or len(statement.targets) != 1 or name != dotted(statement.targets[0]):
            return None
        element = sliced(statement.value)
        place = dotted(element.base)
        if element.base is statement.value or place is None or element.pieces is not None or counted.kept:
            return None
        if any(p is None or overlap(p, name or "") for _, p in changes(function)):
            raise RefusedError(f"`{name}` changes")
        if any(store is not statement and not isinstance(store, ast.arg) for store in bindings(function, place)):
            raise RefusedError(f"`{place}` is bound again after `{name}` was made of it")
        self.lists_read.add(place if name is None else name)
        rank = self._rank_of_cut(element.base) if element.kept else self._iterated_rank(element.base)
        axis = element.axis % rank
        cut = self.window(self.loops[counted.depth], node.value, 0, 1, counted.shift)
        texts = [cut if d == axis else ":" for d in range(rank)]
        slots = tuple(None if d == axis else d for d in range(rank) if d != axis or element.kept)
        loops = self._only(counted.depth, axis)
        return Batched(
            indexed(place, texts), rank, loops, slots, cut=Cut(place, atom=True, slices=(*texts,)), view=True
        )

    def _is_position(self, item: ast.expr) -> bool:
        """Whether an item of an index is computed in the round: a position, or a tensor of them."""
        return not isinstance(item, ast.Slice) and self._counted(item) is None and self.varies(item)

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
                entries.append(self._text(item))
            else:
                raise RefusedError(f"`{self._text(node)}` is not a plain look-up")
        if len(entries) > value.round_rank or None in value.slots:
            raise RefusedError("the run and the source disagree about dimensions")
        return self._looked_up(value, ids, entries)

    def _looked_up(self, value: Batched, ids: Batched, entries: Sequence[str | Batched]) -> Batched:
        """`value[entries]` with the numbers of the rounds in the loop's place."""
        loop = self.loop
        counted = loop.index is not None and loop.stop is not None and not loop.start and loop.step == 1
        if not counted or loop.stop is None or len(value.loops) != 1:
            self.meet([value, ids])
            return looked_up(value, entries, self._numbers(value))
        stem = wrapped(value.text, value.atom)
        if value.cut is not None:
            # The numbers themselves pick the loop's rows: no slice is needed in front of them.
            slices = tuple(":" if d == value.loop else cut for d, cut in enumerate(value.cut.slices))
            stem = wrapped(value.cut.stem, value.cut.atom)
            text = indexed(value.cut.stem, slices, atom=value.cut.atom)
            value = replace(value, text=text, cut=replace(value.cut, slices=slices))
        numbers = f"{self.torch}.arange({self.stop_of(loop)}, device={stem}.device)"
        self.meet([replace(value, text=""), ids])
        return looked_up(value, entries, numbers)

    def _is_loop_index(self, item: ast.expr) -> bool:
        return self._counted(item) is not None

    def _gather(self, node: ast.Subscript, item: ast.expr) -> Batched:
        """`table[ids[:, t]]`: look-ups along the first dimension of a fixed tensor."""
        op = self.sites.op(node, "aten::index")
        ids = self.lift(item)
        if op is None or not op.shapes or isinstance(ids, Fixed) or ids.boolean:
            raise RefusedError(f"`{self._text(node)}` is not a plain look-up")
        self.require_pure(node.value)
        ids = arranged(ids, ids.natural)
        extra = len(op.shapes[0]) - 1
        text = self._spliced(node, {item: ids.text})
        return Batched(text, ids.rank + extra, ids.loops, (*ids.slots, *range(ids.rank, ids.rank + extra)))

    def _index_batched(self, node: ast.Subscript, value: Batched) -> Batched:
        """An index into a round's value: `row[None]`, `row[:, 0]`, `row[..., :3]`, `row[j]` for an inner loop's `j`."""
        cuts: dict[int, str] = {}
        gone: set[int] = set()
        slots: list[int | None] = []
        loops = [*value.loops]
        axis = 0
        for item in self._expanded(index_items(node), value.round_rank):
            if _is_none(item):
                slots.append(None)
                continue
            slot = value.slots[axis]
            axis += 1
            counted = self._counted(item)
            if counted is not None:
                if loops[counted.depth] is not None or slot is None:
                    raise RefusedError("the loop variable is used for two dimensions")
                loops[counted.depth] = slot
                cuts[slot] = self._window_of_value(node.value, counted, axis - 1)
                slots += [None] if counted.kept else []
            elif isinstance(item, ast.Slice):
                if self.varies(item):
                    raise RefusedError(f"`{self._text(node)}` is not a plain slice per round")
                cut = self._text(item)
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
            loops=tuple(None if d is None else left.index(d) for d in loops),
            slots=tuple(None if s is None else left.index(s) for s in slots),
        )

    def _window_of_value(self, base: ast.expr, counted: _Counted, axis: int) -> str:
        """What a counter covers of a round's value: all of it if the loop certainly counts to its end."""
        loop = self.loops[counted.depth]
        size = f"{self._text(base)}.size({axis})", f"{self._text(base)}.shape[{axis}]", f"len({self._text(base)})"
        if loop.stop is None or loop.start or loop.step > 1 or counted.shift:
            raise RefusedError(f"the loop does not count along `{self._text(base)}`")
        if self.home.text_of(loop.stop) in size[: 3 if axis == 0 else 2]:
            return ":"
        if self.home.varies(loop.stop) or not stop_is_count(loop.stop):
            raise RefusedError("the number of rounds changes inside the loop")
        return f":{self.home.text_of(loop.stop)}"

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
        self.meet(batched)
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
        texts, shape = together(values)
        parts = {o: _in_place_of(node, o, *text) for o, text in zip(operands, texts, strict=True)}
        return replace(shape, text=self._spliced(node, parts), atom=_is_atom(node))

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
        other, own = operands[1 if first else 0], self._counted(operands[0 if first else 1])
        value = self.lift(other)
        depth = own.depth if own is not None and not own.shift else -1
        loop = self.loops[depth]
        if depth < 0:
            raise RefusedError("the number of rounds is not written in the source")
        stop = self.stop_of(loop)
        if isinstance(value, Fixed):
            if max(ranks) == 0 or not value.atom:
                raise RefusedError(f"`{self._text(other)}` may be a number")
            value = replace(value, rank=max(ranks))
        counter = self._counter(loop, stop, f", device={wrapped(value.text, value.atom)}.device")
        steps = Batched(counter, 1, self._only(depth, 0), ())
        values = [steps, value] if first else [value, steps]
        return replace(self.broadcast(node, operands, values), boolean=True)

    def condition(self, node: ast.expr) -> Batched:
        """What a test asks of each round, as booleans. Raises `RefusedError` for tests that ask no tensor."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
            return self.condition(node.func.value)
        if isinstance(node, ast.Call) and dotted(node.func) == "bool" and len(node.args) == 1:
            return self.condition(node.args[0])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value = self.condition(node.operand)
            return replace(value, text=f"~{wrapped(value.text, value.atom)}", atom=False, cut=None, view=False)
        if isinstance(node, ast.BoolOp):
            asked = [self.condition(v) for v in node.values]
            self.meet(asked)
            texts, shape = together(asked)
            sign = " & " if isinstance(node.op, ast.And) else " | "
            return replace(shape, text=sign.join(wrapped(text, atom) for text, atom in texts), atom=False, boolean=True)
        value = self.lift(node)
        if isinstance(value, Fixed):
            raise RefusedError(f"`{self._text(node)}` is the same in every round")
        if value.boolean:
            return value
        return replace(value, text=f"{wrapped(value.text, value.atom)} != 0", atom=False, boolean=True, cut=None)

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
        if name == "sum" and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
            rows = self.list_of_rounds(node.args[0])
            if rows is not None:
                return reduced_over_last(rows[0], "sum")
        if name is None or (not method and not library):
            function = function_of(self.sites.tree, node)
            return self._module(node) if function is None else self._helper(node, function)
        if any(self.varies(keyword.value) for keyword in node.keywords):
            raise RefusedError(f"`{self._text(node)}` has a keyword that changes from round to round")
        for keyword in node.keywords:
            self.require_pure(keyword.value)
            if keyword.arg in {"out", "inplace"}:
                raise RefusedError(f"`{self._text(node)}` writes into its argument")
        receiver = [node.func.value] if method and isinstance(node.func, ast.Attribute) else []
        operands = [*receiver, *node.args]
        if any(isinstance(o, ast.Starred) for o in operands):
            raise RefusedError(f"`{self._text(node)}` has a starred argument")
        if name in _LIKE and library:
            return self._like(node, name)
        if name in {"tensor", "full", "as_tensor"} and library:
            return self._counter_as_tensor(name, node)
        if name in {"embedding", "linear"} and library:
            return self._module(node)
        if name in JOINS and library:
            return self._join(node, name)
        if name in {"matmul", "mm", "bmm", "mv", "dot"} and len(operands) == 2 and not node.keywords:
            return self._product(node, (operands[0], operands[1]))
        if name == "scaled_dot_product_attention" and library:
            return self._attention(node)
        if name in LOSSES and library:
            return self._loss(name, node)
        if name in {"flatten", "reshape", "view"} and operands and self._flattens(name, operands):
            return self._flat(node, operands[0])
        if name in _VIEWS and operands:
            return self._view(name, node, operands)
        if (name in REDUCING or name in ALONG) and operands:
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
            self.require_pure(given)
            fill = self._text(given)
        # A dtype of its own would be lost when only the scalar is kept.
        kept = fill if not any(k.arg != "fill_value" for k in node.keywords) else None
        text = self._spliced(node, {node.args[0]: value.text})
        return replace(value, text=text, atom=True, fill=kept, boolean=False, view=False, cut=None)

    def numbers(self, bound: ast.expr, where: str) -> tuple[str, int] | None:
        """The numbers of all rounds for `t` or `t + 1`, and what is still to be added. None for other bounds."""
        counted = self._counted(bound)
        loop = self.loops[counted.depth] if counted is not None else None
        if counted is None or loop is None or counted.kept:
            return None
        if self.depth > 1:
            raise RefusedError("the number of rounds is not written in the source")
        if loop.start + counted.shift < 0:
            raise RefusedError("the first round's bound is negative")
        text = self._counter(loop, self.stop_of(loop), where)
        if counted.shift in {0, 1}:
            return text, counted.shift
        return f"({text} {'+' if counted.shift > 0 else '-'} {abs(counted.shift)})", 0

    def surely_runs(self, loop: Loop) -> bool:
        """Whether the source itself says that a loop has at least one round."""
        try:
            stop = self.stop_of(loop)
        except RefusedError:
            return False
        return stop.isdigit() and int(stop) > loop.start

    def _counter(self, loop: Loop, stop: str, where: str) -> str:
        """The numbers of all rounds. `arange` refuses a start beyond the stop, which a loop without rounds may have."""
        if not loop.start and loop.step == 1:
            return f"{self.torch}.arange({stop}{where})"
        if self.surely_runs(loop):
            step = f", {loop.step}" if loop.step > 1 else ""
            return f"{self.torch}.arange({loop.start}, {stop}{step}{where})"
        step = f":{loop.step}" if loop.step > 1 else ""
        return f"{self.torch}.arange({stop}{where})[{loop.start or ''}:{step}]"

    def _counter_as_tensor(self, name: str, node: ast.Call) -> Value:
        """`torch.tensor([t])` and `torch.full((b,), t)`: the counter becomes an `arange`."""
        given = argument(node, 1, "fill_value") if name == "full" else argument(node, 0, "data")
        size = argument(node, 0, "size") if name == "full" else None
        listed = given.elts if isinstance(given, ast.List) and name != "full" else [given]
        item = listed[0] if len(listed) == 1 else None
        counted = self._counted(item) if item is not None else None
        others = {k.arg: k.value for k in node.keywords if k.arg not in {"size", "fill_value", "data"}}
        kind = others.pop("dtype", None)
        device = others.pop("device", None)
        if counted is None or counted.kept or others or (kind is not None and dotted(kind) not in _WHOLE_NUMBERS):
            raise RefusedError(f"`{self._text(node)}` makes a tensor of more than the counter")
        loop = self.loops[counted.depth]
        if counted.shift:
            raise RefusedError("the number of rounds is not written in the source")
        stop = self.stop_of(loop)
        where = "" if device is None else f", device={self._text(device)}"
        if device is not None:
            self.require_pure(device)
        text = self._counter(loop, stop, where)
        if size is None:
            return Batched(text, 1, self._only(counted.depth, 0), (None,) * isinstance(given, ast.List))
        entries = size.elts if isinstance(size, (ast.Tuple, ast.List)) else [size]
        if len(entries) != 1 or self.varies(entries[0]) or isinstance(entries[0], ast.Starred):
            raise RefusedError(f"`{self._text(node)}` has more than one dimension")
        self.require_pure(entries[0])
        text = f"{text}[:, None].expand(-1, {self._text(entries[0])})"
        return Batched(text, 2, self._only(counted.depth, 0), (1,))

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
        # A look-up or an activation takes its positions in any arrangement, a layer all but the last one.
        extra = (value.rank,) if lookup else ()
        if not ran <= ELEMENTWISE_MODULES | {"aten::embedding"}:
            value = self._last_dimension_kept(value)
        text = self._spliced(node, {node.args[0]: value.text})
        return Batched(text, value.rank + len(extra), value.loops, (*value.slots, *extra))

    def _last_dimension_kept(self, value: Batched) -> Batched:
        """A layer works on the last dimension: it must stay a slot of the round's value."""
        if not value.slots:
            raise RefusedError("a layer needs a dimension to work on")
        if value.slots[-1] == value.rank - 1:
            return value
        live = live_loops([value])
        value = seen_in(value, live)
        value = arranged(value, value.natural if value.natural >= 1 else value.round_rank)
        return spread(value, live, self.depth)

    # -- functions of the file

    def _helper(self, node: ast.Call, function: Function) -> Value:
        """`self.encode(x[:, t])`: the function on what all rounds give it, or its body in place of the call."""
        given = _arguments(function, node, method=isinstance(node.func, ast.Attribute))
        if given is None or not is_plain(function):
            raise RefusedError(f"`{self._text(node.func)}` does more than compute a value")
        whole = self._helper_on_all(node, function, given)
        if whole is not None:
            return whole
        if function.name in {"forward", "__call__"}:
            raise RefusedError(f"`{self._text(node.func)}` is not known to work for all rounds at once")
        return self._helper_inside(function, given)

    def _inner(self, function: Function, values: dict[str, Value], renamed: Mapping[str, str]) -> Lifter:
        bound = {name for statement in function.body for name in names_bound(statement)} | values.keys()
        inside = frozenset(bound)
        return replace(self, values=values, lists={}, renamed=renamed, bound=inside, caller=self.home)

    def _helper_on_all(self, node: ast.Call, function: Function, given: Mapping[str, ast.expr]) -> Value | None:
        """The same call with all rounds' values, if the function's text needs no change to take them."""
        varying = [name for name, value in given.items() if self.varies(value)]
        if len(varying) != 1 or any(self.is_counted(given[name]) for name in varying):
            return None
        value = self.lift(given[varying[0]])
        if isinstance(value, Fixed) or None in value.loops:
            return None
        free = {name for name in given if name not in varying}
        for right in dict.fromkeys((value.natural, value.round_rank)):
            put = arranged(value, right)
            inside = replace(put, text=varying[0], atom=True, cut=None, view=False, boolean=False, fill=None)
            inner = self._inner(function, {varying[0]: inside}, {})
            try:
                result = inner.unchanged(function, free)
            except RefusedError:
                continue
            if isinstance(result, Batched):
                text = self._spliced(node, {given[varying[0]]: put.text})
                return replace(result, text=text, atom=True, cut=None, view=False, fill=None)
        return None

    def unchanged(self, function: Function, free: Collection[str]) -> Value:
        """What a function returns for all rounds at once if its text stays as it is. Raises `RefusedError`."""
        for statement in _work(function):
            if not isinstance(statement, (ast.Assign, ast.Return)) or statement.value is None:
                raise RefusedError("a function does more than compute a value")
            value = self.lift(statement.value)
            if not isinstance(value, Batched) or value.text != self._text(statement.value):
                raise RefusedError("a function would have to be written in another way")
            if isinstance(statement, ast.Return):
                return value
            target = statement.targets[0]
            if len(statement.targets) != 1 or not isinstance(target, ast.Name) or target.id in free:
                raise RefusedError("a function does more than compute a value")
            self.values[target.id] = replace(value, text=target.id, atom=True, cut=None)
        raise RefusedError("a function returns nothing")

    def _helper_inside(self, function: Function, given: Mapping[str, ast.expr]) -> Value:
        """What a function computes, written where it is called."""
        tree = self.sites.tree
        values: dict[str, Value] = {}
        renamed: dict[str, str] = {}
        for name, argument_given in given.items():
            if self.is_counted(argument_given) or not self.varies(argument_given):
                text = self._text(argument_given)
                renamed[name] = text if _is_atom(argument_given) or not names_read(argument_given) else f"({text})"
            else:
                values[name] = self.kept(name, self.lift(argument_given), function)
        bound = {name for statement in function.body for name in names_bound(statement)}
        caller = tree.function(self.loops[0].node)
        outside = {n for n in names_read(function) if n not in bound and n not in given and n != "self"}
        hidden = outside & names_bound(caller) if caller is not None else outside
        if bound & given.keys() or hidden or caller is None:
            raise RefusedError(f"`{function.name}` uses names that mean something else where it is called")
        inner = self._inner(function, values, renamed)
        for statement in _work(function):
            if isinstance(statement, ast.Return) and statement.value is not None:
                return inner.lift(statement.value)
            target = statement.targets[0] if isinstance(statement, ast.Assign) else None
            if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or not isinstance(target, ast.Name):
                raise RefusedError(f"`{function.name}` does more than compute a value")
            if target.id in inner.values:
                raise RefusedError(f"`{target.id}` is bound twice in a round")
            inner.values[target.id] = inner.kept(target.id, inner.lift(statement.value), function)
        raise RefusedError(f"`{function.name}` returns nothing")

    def kept(self, name: str, value: Value, function: Function) -> Value:
        """A value that a function names, on a line of its own where it is read several times."""
        reads = sum(
            isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(function)
        )
        if reads < 2 or (isinstance(value, Batched) and value.view) or isinstance(value, Fixed):
            return value
        used = {line.split(" = ")[0] for line in self.before}
        own = next(
            n
            for n in (fresh_name(self.loops[0].function, name), *(f"{name}_{k}" for k in range(2, 99)))
            if n not in used and n == fresh_name(self.loops[0].function, n)
        )
        self.before.append(f"{own} = {value.text}")
        self.lengths.name(own, value.text)
        return replace(value, text=own, atom=True, cut=None)

    # -- along dimensions

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
        live = live_loops([value])
        put = plain(seen_in(value, live))
        text = self._along_text(name, node, operands[0], put, dim, dims)
        kept = name in ALONG or (isinstance(keep, ast.Constant) and keep.value is True)
        result = spread(reduced(put, text, dims, kept), live, self.depth)
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
            last = max(d for d in put.loops if d is not None)
            places = placed(put, dims, negative=all((s or 0) > last for s in put.slots))
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
        op = self.sites.op(node, *(f"aten::{name}" for name in ("matmul", "mm", "bmm", "mv", "dot", "inner")))
        if op is None or len(op.shapes) < 2:
            raise RefusedError(f"`{self._text(node)}` is no matrix product that the run saw")
        ranks = [len(s) for s in op.shapes[:2]]
        if not self._agree(values, ranks):
            raise RefusedError(f"the run saw other dimensions at `{self._text(node)}`")
        self.meet(values)
        live = live_loops([v for v in values if isinstance(v, Batched)])
        values = [seen_in(v, live) if isinstance(v, Batched) else v for v in values]
        result = product(values, ranks, len(live))
        return spread(result, live, self.depth)

    def _attention(self, node: ast.Call) -> Value:
        """`scaled_dot_product_attention(q[:, h], k[:, h], v[:, h])`: the loops become dimensions of the batch."""
        plain_options = all(k.arg in {"is_causal", "scale"} and not self.varies(k.value) for k in node.keywords)
        values = [self.lift(a) for a in node.args]
        batched = [v for v in values if isinstance(v, Batched)]
        if len(values) != 3 or len(batched) != 3 or not plain_options:
            raise RefusedError(f"`{self._text(node)}` has an option that is not known to work for all rounds at once")
        rank = batched[0].round_rank
        if rank < 2 or any(v.round_rank != rank or None in v.loops for v in batched):
            raise RefusedError("the run and the source disagree about dimensions")
        self.meet(batched)
        right = between(batched, 2, rank)
        parts: dict[ast.expr, str] = {a: arranged(v, right).text for a, v in zip(node.args, batched, strict=True)}
        return standing(self._spliced(node, parts), rank, right, self.depth)

    def _loss(self, name: str, node: ast.Call) -> Value:
        """`mse_loss(guess[c], truth[c])`, which averages over a round's elements; similarities along a dimension."""
        if len(node.args) != 2 or any(k.arg != "dim" for k in node.keywords):
            raise RefusedError(f"`{self._text(node)}` has an option that is not known to work for all rounds at once")
        values = [self.lift(a) for a in node.args]
        ranks = {v.round_rank for v in values if isinstance(v, Batched)}
        seen = self.sites.cost(node)
        pairs = [o.shapes[:2] for o in seen.ops if o.outermost and len(o.shapes) > 1] if seen is not None else []
        if len(ranks) != 1 or not pairs or any(len(one) != len(other) for one, other in pairs):
            raise RefusedError("the run and the source disagree about dimensions")
        rank = ranks.pop()
        values = [replace(v, rank=rank) if isinstance(v, Fixed) and v.rank is None else v for v in values]
        self.meet(values)
        texts, shape = together(values)
        parts: dict[ast.expr, str] = {a: text for a, (text, _) in zip(node.args, texts, strict=True)}
        keyword = next((k.value for k in node.keywords), None)
        live = live_loops([shape])
        value = seen_in(shape, live)
        if name == "cosine_similarity":
            dims = round_dims(value, [1 if keyword is None else integer(keyword) or 0])
            place = placed(value, dims, negative=True)[0]
            if keyword is not None:
                parts[keyword] = str(place)
            text = self._spliced(node, parts)
            text = text if keyword is not None else f"{text[:-1]}, dim={place})"
            return spread(reduced(value, text, dims, keep=False), live, self.depth)
        if name == "pairwise_distance" or keyword is not None:
            raise RefusedError(f"`{self._text(node)}` has an option that is not known to work for all rounds at once")
        dims = round_dims(value, None)
        places = placed(value, dims, negative=False)
        one, other = (parts[a] for a in node.args)
        spots = str(places[0]) if len(places) == 1 else f"({', '.join(map(str, places))})"
        text = f'{self._text(node.func)}({one}, {other}, reduction="none").mean({spots})'
        return spread(reduced(value, text, dims, keep=False), live, self.depth)

    def _flattens(self, name: str, operands: Sequence[ast.expr]) -> bool:
        """Whether a call makes a vector of a round's value."""
        sizes = [integer(o) for o in operands[1:]]
        return sizes in ([], [0]) if name == "flatten" else sizes == [-1]

    def _flat(self, node: ast.Call, operand: ast.expr) -> Value:
        value = self.lift(operand)
        if isinstance(value, Fixed) or self.writes:
            raise RefusedError(f"`{self._text(node)}` may or may not be a copy of what the loop writes to")
        live = live_loops([value])
        put = seen_in(value, live)
        own = [s for s in put.slots if s is not None]
        if len(own) < 2:
            slots = tuple(own) or (None,)
            return replace(value, slots=slots, cut=None)
        put = arranged(put, put.round_rank)
        count = len(put.loops)
        text = f"{wrapped(put.text, put.atom)}.flatten({count})"
        return spread(leading(text, 1, count), live, self.depth)

    def _join(self, node: ast.Call, name: str) -> Value:
        given = argument(node, 0, "tensors")
        dim = argument(node, 1, "dim")
        number = 0 if dim is None else integer(dim)
        rows = None if given is None else self.list_of_rounds(given)
        if rows is not None and number is not None and all(k.arg == "dim" for k in node.keywords):
            value, backwards = rows
            size = value.round_rank + (name == "stack")
            if not -size <= number < size:
                raise RefusedError("the run and the source disagree about dimensions")
            put = stacked if name == "stack" else concatenated
            return put(value, number % size, backwards=backwards)
        if not isinstance(given, (ast.List, ast.Tuple)) or number is None or any(k.arg != "dim" for k in node.keywords):
            raise RefusedError(f"`{self._text(node)}` is not plain")
        parts = [self.lift(e) for e in given.elts]
        self.meet(parts)
        texts, place, rank = joined(parts, number, name == "stack", self.depth)
        return leading(f"{self._text(node.func)}([{', '.join(texts)}], dim={place})", rank, self.depth)

    def list_of_rounds(self, node: ast.expr) -> tuple[Batched, bool] | None:
        """What an inner loop or a comprehension fills a list with, and whether it runs backwards. None for others."""
        if isinstance(node, ast.Call) and dotted(node.func) in {"tuple", "list"} and len(node.args) == 1:
            return self.list_of_rounds(node.args[0])
        if isinstance(node, ast.Name) and node.id in self.lists:
            return self.lists[node.id], False
        if not isinstance(node, (ast.ListComp, ast.GeneratorExp)) or len(node.generators) != 1:
            return None
        loop = loop_of(self.sites, node)
        value = self.deeper(loop).lift(node.elt) if loop is not None else None
        if loop is None or not isinstance(value, Batched):
            raise RefusedError(f"`{self._text(node)}` does not run over numbers or a tensor")
        return value, loop.backwards

    def _gather_along(self, name: str, node: ast.Call, operands: Sequence[ast.expr]) -> Value:
        """`row.gather(0, ids[b])` and `row.index_select(0, ids[b])`."""
        value, ids, dim = self.lift(operands[0]), self.lift(operands[2]), integer(operands[1])
        if isinstance(value, Fixed) or isinstance(ids, Fixed) or dim is None:
            raise RefusedError(f"`{self._text(node)}` does not look up in a round's value by a round's positions")
        at = round_dims(value, [dim])[0]
        if name == "index_select":
            items: list[str | Batched] = [":"] * value.round_rank
            items[at] = ids
            return self._looked_up(value, ids, items)
        self.meet([value, ids])
        if ids.round_rank != value.round_rank:
            raise RefusedError("the run and the source disagree about dimensions")
        one, other = plain(value, value.round_rank), plain(ids, ids.round_rank)
        return leading(f"{wrapped(one.text, one.atom)}.gather({at + 1}, {other.text})", value.round_rank)

    def _numbers(self, value: Batched) -> str:
        """The numbers of the rounds, as a tensor beside a round's value."""
        text = wrapped(value.text, value.atom)
        return f"{self.torch}.arange({text}.size({value.loop}), device={text}.device)"

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

    def text_of(self, node: ast.AST | None) -> str:
        """The text of a node as the loop's function would write it."""
        return self._text(node)

    def _text(self, node: ast.AST | None) -> str:
        if not isinstance(node, (ast.expr, ast.stmt)) or not hasattr(node, "lineno"):
            return ":"
        reads = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self.renamed] if self.renamed else []
        if reads:
            return splice(self.sites.source, node, {n: self.renamed[n.id] for n in reads})
        return self.sites.tree.text(node)

    def _in_caller(self, node: ast.expr) -> ast.expr:
        """An expression of a helper as the loop's function would write it. It has no place in the file."""
        if not names_read(node) & self.renamed.keys():
            return node
        return ast.parse(self._text(node), mode="eval").body

    def _spliced(self, node: ast.expr, parts: Mapping[ast.expr, str]) -> str:
        if not self.renamed:
            return splice(self.sites.source, node, parts)
        covered = {id(below) for part in parts for below in ast.walk(part)}
        reads = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self.renamed]
        names: dict[ast.expr, str] = {n: self.renamed[n.id] for n in reads if id(n) not in covered}
        return splice(self.sites.source, node, {**names, **parts})


_WHOLE_NUMBERS = frozenset({"torch.long", "torch.int64"})


def _key(loop: Loop) -> str:
    """What tells a loop from the others of its function."""
    return f"{loop.node.lineno}.{loop.node.col_offset}.{loop.index or next(iter(loop.elements))}"


def is_plain(function: Function) -> bool:
    """Whether a function runs its body once, from top to bottom, when it is called."""
    inside = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.Lambda, ast.NamedExpr)
    return (
        isinstance(function, ast.FunctionDef)
        and not function.decorator_list
        and not any(isinstance(n, inside) for n in ast.walk(function))
    )


def _work(function: Function) -> list[ast.stmt]:
    """A function's statements without its docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return function.body[1:] if documented else function.body


def _arguments(function: Function, call: ast.Call, *, method: bool) -> dict[str, ast.expr] | None:
    """What a call gives each parameter; None if that is not plain to see. Defaults have to be literals."""
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    if spec.vararg or spec.kwarg or spec.kwonlyargs or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if method:
        if not names or names[0] != "self":
            return None
        names = names[1:]
    given = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in given or keyword.arg not in names:
            return None
        given[keyword.arg] = keyword.value
    defaults = dict(zip(reversed(names), reversed(spec.defaults), strict=False))
    for name in names:
        if name not in given:
            if not isinstance(defaults.get(name), ast.Constant):
                return None
            given[name] = defaults[name]
    return given if len(call.args) <= len(names) else None


@dataclass(frozen=True)
class _Counted:
    """A position that a loop's counter gives: the loop's number, what is added, and whether the axis is kept."""

    depth: int
    shift: int = 0
    kept: bool = False


@dataclass(frozen=True)
class _Block:
    """A block of a dimension for every round of a loop: `count` blocks of `width` elements."""

    depth: int
    count: str
    width: str


def _constant_apart(node: ast.expr) -> tuple[ast.expr, int]:
    """`n` and -1 for `n - 1`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
        number, other = integer(node.right), integer(node.left)
        if number is not None:
            return node.left, number if isinstance(node.op, ast.Add) else -number
        if other is not None and isinstance(node.op, ast.Add):
            return node.right, other
    return node, 0


def _ends_block(upper: ast.expr, counter: ast.expr, width: ast.expr) -> bool:
    """Whether `upper` is `(h + 1) * d` or `h * d + d` for the counter `h` and the width `d`."""
    h, d = ast.unparse(counter), ast.unparse(width)
    forms = (f"({h} + 1) * {d}", f"{d} * ({h} + 1)", f"(1 + {h}) * {d}", f"{h} * {d} + {d}", f"{d} * {h} + {d}")
    return ast.unparse(upper) in {ast.unparse(ast.parse(form, mode="eval").body) for form in forms}


def _one_loop_more(value: Batched) -> Batched:
    return replace(value, loops=(*value.loops, None))


def together(values: Sequence[Value]) -> tuple[list[tuple[str, bool]], Batched]:
    """The texts of values that broadcast against each other, whether they are atoms, and the shape of what comes out.

    The text of the shape is empty.
    """
    batched = [v for v in values if isinstance(v, Batched)]
    live, depth = live_loops(batched), len(batched[0].loops)
    seen = [seen_in(v, live) for v in batched]
    right = common_right(seen)
    rank = max(*(max(v.round_rank, right) for v in seen), *(v.rank or 0 for v in values if isinstance(v, Fixed)), 0)
    texts: list[tuple[str, bool]] = []
    for value in values:
        if isinstance(value, Fixed):
            texts.append((fixed_text(value, right, len(live)), value.atom))
        else:
            own = seen_in(value, live)
            texts.append(ordered(own, without_leading(own.order(right))))
    loops = loop_dims(rank + len(live), right, len(live))
    slots = tuple(d for d in range(rank + len(live)) if d not in loops)
    return texts, spread(Batched("", rank + len(live), loops, slots), live, depth)


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


def lifter_for(sites: Sites, loop: Loop, lengths: Lengths | None = None) -> Lifter:
    """A lifter at the start of a round: nothing that the round binds has a value yet."""
    bound = frozenset(name for statement in loop.body for name in names_bound(statement))
    own = bound - loop.variables if not bound & loop.variables else bound
    return Lifter(sites, (loop,), bound=own, lengths=lengths or Lengths())
