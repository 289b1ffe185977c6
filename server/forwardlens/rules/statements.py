"""Lifting the statements of a loop round: what each of them becomes when all rounds are done at once."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from forwardlens.rules.batched import (
    Batched,
    Fixed,
    RefusedError,
    Value,
    arranged,
    flipped,
    indexed,
    live_loops,
    meeting,
    reduced_over_last,
    seen_in,
    wrapped,
)
from forwardlens.rules.evidence import Sites, index_items
from forwardlens.rules.lifting import Lifter, together
from forwardlens.rules.loops import Loop, leading_shape, loop_of, stop_is_count
from forwardlens.rules.operations import is_torch_function
from forwardlens.rules.windows import plain_text
from forwardlens.source.dataflow import definition, fresh_name, names_bound, names_read, root
from forwardlens.source.rewrite import splice, stands_alone
from forwardlens.source.tree import dotted, integer

INPLACE = frozenset("masked_fill_ zero_ fill_ copy_ add_ sub_ mul_ div_ clamp_ relu_ neg_".split())
# How a running value and a round's value are put together, and what does that for all rounds at once.
_RUNNING = {"maximum": "amax", "minimum": "amin", "max": "amax", "min": "amin"}
# What may be computed for rounds that skipped it: no value of it is infinite or undefined where its operands are not,
# so that a gradient through the unused side stays zero.
_HARMLESS = frozenset(
    """relu sigmoid tanh gelu silu clamp clip abs neg add sub mul maximum minimum where masked_fill float double half
    bfloat16 long int bool to type_as sin cos sum mean unsqueeze squeeze transpose permute view reshape linear embedding
    matmul expand size item""".split()
)


_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


@dataclass(frozen=True)
class Appended:
    """A list outside the loop that every round adds `value` to."""

    name: str
    value: Batched
    receiver: ast.Name
    statement: ast.stmt


@dataclass(frozen=True)
class Filled:
    """A statement that writes `value` to all of the tensor `name`, and nothing else of the loop does."""

    name: str
    value: Batched
    region: Batched


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


_MADE_OF = {"zeros": False, "new_zeros": False, "ones": True, "new_ones": True}


def made_mask(sites: Sites, loop: Loop, name: str, fill: str) -> MadeMask | None:
    """How `name` is made right before a loop that sets some of its elements to `fill`.

    None unless it is `torch.zeros` or `torch.ones` of a written size and dtype, with `fill` the other of the two.
    """
    tree = sites.tree
    start = definition(tree, loop.function, name)
    block = tree.block(loop.node) if isinstance(loop.node, ast.stmt) else []
    call = start.value if start is not None else None
    if start not in block or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    ones = _MADE_OF.get(call.func.attr)
    if ones is None or fill not in ({"False", "0", "0.0"} if ones else {"True", "1", "1.0"}):
        return None
    options = {k.arg: tree.text(k.value) for k in call.keywords}
    sizes = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], (ast.Tuple, ast.List)) else call.args
    texts = _sizes_of(sites, sizes)
    receiver = None if is_torch_function(tree.module, call.func) else tree.text(call.func.value)
    kind = options.pop("dtype", f"{receiver}.dtype" if receiver is not None else "")
    device = options.pop("device", f"{receiver}.device" if receiver is not None else "")
    if options or not kind or texts is None or not is_repeatable_size(call):
        return None
    seen = block[block.index(start) + 1 : block.index(loop.node)] if isinstance(loop.node, ast.stmt) else []
    uses = [n for n in ast.walk(loop.node) if isinstance(n, ast.Name) and n.id == name]
    if any(name in names_read(s) for s in seen) or len(uses) != 1 or not stands_alone(tree, start):
        return None
    return MadeMask(name, start, texts, device, kind, opposite=ones)


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


def is_repeatable_size(call: ast.Call) -> bool:
    """Whether a size may be written again: nothing in it is computed by a call other than of a tensor's lengths."""
    calls = [n for part in (*call.args, *call.keywords) for n in ast.walk(part) if isinstance(n, ast.Call)]
    return all(
        (isinstance(c.func, ast.Attribute) and c.func.attr in {"size", "numel", "dim"}) or dotted(c.func) == "len"
        for c in calls
    )


class Rounds:
    """Works through the statements of a round and collects the lines that stand for all rounds.

    A line of several rows has its rows separated by a line feed and indented by `unit`.
    """

    def __init__(self, sites: Sites, loop: Loop, unit: str, lifter: Lifter) -> None:
        self.sites = sites
        self.loop = loop
        self.unit = unit
        self.lifter = lifter
        self.lines: list[str] = []
        self.appended: list[Appended] = []
        # Text and place of every slice that the loop writes; the text is a name where the loop gives the slice.
        self.written: list[tuple[str, str]] = []
        # What is written to what, with the line that does it and the loops around it.
        self.writes: list[tuple[str, Lifter, tuple[Value, Batched]]] = []
        # Writes by `=` of whole tensors, by their line.
        self.filled: dict[str, Filled] = {}
        # Tensors that are made of a comparison instead of being made and then filled, by their line.
        self.made: dict[str, MadeMask] = {}
        # Names that the rounds add to.
        self.totals: set[str] = set()
        # Names that a round gives a value to more than once.
        self.rebound: set[str] = set()
        # Lists that a round of an outer loop starts, for an inner one to fill, and sums likewise.
        self.started: set[str] = set()
        self.loops: list[Loop] = [loop]
        self.bound: set[str] = {*self.lifter.bound}

    def block(self, statements: Sequence[ast.stmt]) -> list[tuple[ast.stmt, list[str]]]:
        """The lines of each statement."""
        found: list[tuple[ast.stmt, list[str]]] = []
        for number, statement in enumerate(statements):
            if isinstance(statement, ast.If) and not statement.orelse and _skips(statement.body):
                # `if not wanted: continue` puts the rest of the round under the opposite condition.
                rest = [*statements[number + 1 :]]
                found.append((statement, self._lines_of(lambda s=statement, r=rest: self._skipped(s, r))))
                return found
            found.append((statement, self._lines_of(lambda s=statement: self.statement(s))))
        return found

    def _lines_of(self, work: Callable[[], None]) -> list[str]:
        outside, self.lines = self.lines, []
        work()
        own, self.lines = self.lines, outside
        return own

    def statement(self, node: ast.stmt) -> None:
        start = len(self.lines)
        self._statement(node)
        self.lines[start:start] = self.lifter.before
        self.bound |= {line.split(" = ")[0] for line in self.lifter.before}
        self.lifter.before.clear()

    def _statement(self, node: ast.stmt) -> None:
        self._named_inside(node)
        match node:
            case ast.Pass():
                return None
            case ast.Assign(targets=[ast.Name() as target]):
                return self._assign(node, target, node.value)
            case ast.AnnAssign(target=ast.Name() as target, value=ast.expr() as value):
                return self._assign(node, target, value)
            case ast.Assign(targets=[ast.Tuple() as target], value=ast.Tuple() as value):
                return self._several(node, target, value)
            case ast.Assign(targets=[ast.Subscript() as target]):
                return self._write(node, target)
            case ast.AugAssign(target=ast.Subscript() as target):
                return self._update(node, target)
            case ast.AugAssign(target=ast.Name() as target):
                return self._augment(node, target)
            case ast.Expr(value=ast.Constant()):
                return None
            case ast.Expr(value=ast.Call() as call):
                return self._call(node, call)
            case ast.If():
                return self._if(node)
            case ast.For() | ast.While():
                return self._inner(node)
            case _:
                raise RefusedError(f"line {node.lineno} is more than independent tensor work")

    # -- names

    def _named_inside(self, node: ast.stmt) -> None:
        """Give the names of `(e := ...)` their values first, where nothing reads them before that."""
        if isinstance(node, (ast.If, ast.For, ast.While)):
            return
        for named in (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr)):
            around = self.sites.tree.ancestors(named)
            certain = all(not isinstance(a, (ast.BoolOp, ast.IfExp, ast.Lambda)) for a in _up_to(around, node))
            place = (named.lineno, named.col_offset)
            reads = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == named.target.id]
            early = any((n.lineno, n.col_offset) < place for n in reads)
            if not certain or early or any(isinstance(a, _COMPREHENSIONS) for a in _up_to(around, node)):
                raise RefusedError(f"`{named.target.id}` is not certainly bound before it is read")
            self._bind(named.target.id, named.value)

    def _assign(self, node: ast.stmt, target: ast.Name, value: ast.expr) -> None:
        name = target.id
        if isinstance(node, ast.Assign):
            parts = added_to_itself(node)
            if parts and name not in self.lifter.values:
                return self._accumulate(node, name, parts)
            running = running_value(self.sites.tree.module, node)
            if running is not None and name not in self.lifter.values:
                return self._running(node, name, *running)
        if is_empty(value):
            if self.lifter.varies(value) or name in self.lifter.values or name in self.loop.variables:
                raise RefusedError(f"`{name}` is bound twice in a round")
            self.started.add(name)
            return None
        rows = self._list_made(value)
        if rows is not None:
            self.lifter.lists[name] = rows
            return None
        return self._bind(name, value)

    def _list_made(self, value: ast.expr) -> Batched | None:
        """What a comprehension over an inner loop makes a list of."""
        if not isinstance(value, ast.ListComp):
            return None
        rows = self.lifter.list_of_rounds(value)
        if rows is None or rows[1]:
            raise RefusedError(f"`{self._text(value)}` does not run over numbers or a tensor")
        return rows[0]

    def _bind(self, name: str, value: ast.expr) -> None:
        lifter = self.lifter
        if any(name == loop.index for loop in lifter.loops) or name in self.totals:
            raise RefusedError(f"`{name}` is bound twice in a round")
        lifted = lifter.lift(value)
        self._forget(name)
        if isinstance(lifted, Batched) and lifted.view:
            # Another name for the same memory: what is written to one is read from the other.
            lifter.values[name] = lifted
            return
        self.lines.append(f"{name} = {lifted.text}")
        lifter.lengths.name(name, lifted.text)
        lifter.values[name] = (
            replace(lifted, text=name, atom=True, cut=None)
            if isinstance(lifted, Batched)
            else Fixed(name, lifted.rank, atom=True)
        )

    def _forget(self, name: str) -> None:
        """Refuse to bind a name again that another one still is a view of."""
        if name not in self.lifter.values:
            return
        self.rebound.add(name)
        for other, value in self.lifter.values.items():
            if other != name and re.search(rf"\b{re.escape(name)}\b", value.text):
                raise RefusedError(f"`{name}` is bound again while `{other}` is a view of it")

    def _several(self, node: ast.Assign, target: ast.Tuple, value: ast.Tuple) -> None:
        """`a, b = x[t], y[t]`, one after the other."""
        names = [e.id for e in target.elts if isinstance(e, ast.Name)]
        if len(names) != len(target.elts) or len(names) != len(value.elts) or len(set(names)) != len(names):
            raise RefusedError(f"line {node.lineno} is more than independent tensor work")
        for number, (name, part) in enumerate(zip(names, value.elts, strict=True)):
            if names_read(part) & {*names[:number]}:
                raise RefusedError(f"`{name}` needs what another name had before")
            self._bind(name, part)

    def _augment(self, node: ast.AugAssign, target: ast.Name) -> None:
        name = target.id
        if isinstance(node.op, ast.Add) and isinstance(node.value, (ast.List, ast.Tuple)):
            if len(node.value.elts) != 1:
                raise RefusedError(f"a round adds several entries to `{name}`")
            self._append(node, target, node.value.elts[0])
            return
        current = self.lifter.values.get(name)
        if current is None:
            parts = added_to_itself(node)
            if not parts:
                raise RefusedError(f"`{name}` carries a value from one round to the next")
            self._accumulate(node, name, parts)
            return
        if isinstance(current, Fixed) or current.view or not self._owned(name):
            raise RefusedError(f"`{name}` may be memory that something else has too")
        value = self.lifter.lift(node.value)
        self._forget(name)
        self.lines.append(splice(self.sites.source, node, {node.value: meeting(self._known(value, node), current)}))

    def _owned(self, name: str) -> bool:
        """Whether a name of the round certainly has memory of its own."""
        function = self.loop.function
        values = [
            s.value for s in ast.walk(function) if isinstance(s, ast.Assign) and name in {dotted(t) for t in s.targets}
        ]
        return all(isinstance(v, (ast.BinOp, ast.UnaryOp, ast.Compare)) for v in values) and bool(values)

    def _known(self, value: Value, node: ast.AST) -> Value:
        """A fixed value with the rank that the run saw in it as the second operand of `node`."""
        if not isinstance(value, Fixed) or value.rank is not None:
            return value
        cost = self.sites.cost(node)
        op = next((o for o in cost.ops if o.outermost and len(o.shapes) > 1), None) if cost is not None else None
        return value if op is None else replace(value, rank=len(op.shapes[1]))

    # -- sums and running values

    def _accumulate(self, node: ast.Assign | ast.AugAssign, name: str, parts: Sequence[ast.expr]) -> None:
        """`total = total + part`: the sum over all rounds is added once."""
        self._require_alone(node, name)
        sums: dict[ast.expr, str] = {}
        for part in parts:
            value = self.lifter.lift(part)
            sums[part] = self._times(part, value) if isinstance(value, Fixed) else summed(value)
        self.totals.add(name)
        self.lines.append(splice(self.sites.source, node, sums))

    def _times(self, part: ast.expr, value: Fixed) -> str:
        """What is the same in every round, as often as there are rounds."""
        loop = self.loop
        if len(self.lifter.loops) > 1 or loop.stop is None or loop.start or loop.step > 1:
            raise RefusedError("every round adds the same value")
        if not stop_is_count(loop.stop) or self._varies(loop.stop):
            raise RefusedError("every round adds the same value")
        count = self._text(loop.stop)
        return count if integer(part) == 1 else f"{wrapped(value.text, value.atom)} * {count}"

    def _running(self, node: ast.Assign, name: str, method: str, part: ast.expr) -> None:
        """`best = torch.maximum(best, part)`: the largest of all rounds is compared once."""
        self._require_alone(node, name)
        grad = self.sites.context.profile.grad
        if grad.outputs_require_grad or grad.backward_ran:
            raise RefusedError("where rounds give the same value, the gradient would be shared out in another way")
        if not all(self.lifter.surely_runs(loop) for loop in self.lifter.loops):
            raise RefusedError("a loop without rounds would have no largest value")
        value = self.lifter.lift(part)
        if isinstance(value, Fixed):
            raise RefusedError("every round gives the same value")
        self.totals.add(name)
        self.lines.append(splice(self.sites.source, node, {part: summed(value, method)}))

    def _require_alone(self, node: ast.Assign | ast.AugAssign, name: str) -> None:
        uses = [n for n in ast.walk(self.lifter.loops[0].node) if isinstance(n, ast.Name) and n.id == name]
        if len(uses) != (1 if isinstance(node, ast.AugAssign) else 2):
            raise RefusedError(f"`{name}` is used in the loop while it adds up")
        if any(name in loop.variables for loop in self.lifter.loops):
            raise RefusedError(f"`{name}` is bound twice in a round")

    # -- calls

    def _call(self, node: ast.Expr, call: ast.Call) -> None:
        func = call.func
        if not isinstance(func, ast.Attribute):
            raise RefusedError(f"`{self._text(call)}` may do something besides tensor work")
        if func.attr == "append" and isinstance(func.value, ast.Name) and len(call.args) == 1:
            self._append(node, func.value, call.args[0])
        elif func.attr in INPLACE and not call.keywords:
            self._inplace(call, func)
        else:
            raise RefusedError(f"`{self._text(call)}` may do something besides tensor work")

    def _append(self, node: ast.stmt, receiver: ast.Name, entry: ast.expr) -> None:
        value = self.lifter.lift(entry)
        if isinstance(value, Fixed):
            raise RefusedError("every round appends the same value")
        self.appended.append(Appended(receiver.id, value, receiver, node))

    # -- writes into slices

    def _region(self, target: ast.expr) -> Batched:
        """What the rounds together write to, as a tensor with nothing moved."""
        direct = isinstance(target, ast.Subscript) and not self.lifter.varies(target.value)
        if isinstance(target, ast.Subscript) and not self.lifter.varies(target.value):
            region = self.lifter.index(target)
        else:
            region = self.lifter.lift(target)
        if isinstance(region, Fixed) or not region.view:
            raise RefusedError(f"`{self._text(target)}` is not a plain slice to write to")
        region = _unmarked(region)
        if isinstance(target, ast.Subscript):
            place = dotted(target.value) if direct else root(ast.parse(region.text, mode="eval").body)
            if place is None:
                raise RefusedError(f"it is not clear what `{self._text(target)}` writes to")
            self.written.append((self._text(target), place))
        return region

    def _whole(self, region: Batched, target: ast.expr) -> Batched:
        """A region that each round of every loop has a part of its own of."""
        own = tuple(d for d in range(region.rank) if d not in region.loops)
        if None in region.loops or region.slots != own:
            raise RefusedError(f"`{self._text(target)}` is not a plain slice to write to")
        return region

    def _write(self, node: ast.Assign, target: ast.Subscript) -> None:
        if any(isinstance(i, ast.Slice) and self._cut_per_round(i) for i in index_items(target)):
            return self._write_lengths(node, target)
        region = self._whole(self._region(target), target)
        fill = self._as_masked_fill(node.value, region)
        if fill is not None:
            self.lines.append(fill)
            return None
        value = self.lifter.lift(node.value)
        line = f"{self._assignable(region)} = {self._fitted(value, region, self._written_rank(target))}"
        self.lines.append(line)
        self.writes.append((line, self.lifter, (value, region)))
        if isinstance(value, Batched) and isinstance(target.value, ast.Name) and region.text == target.value.id:
            self.filled[line] = Filled(region.text, value, region)
        return None

    def _cut_per_round(self, item: ast.Slice) -> bool:
        return self._varies(item) and not self.lifter.is_counted(item)

    def _assignable(self, region: Batched) -> str:
        return region.text if region.text.endswith("]") else f"{region.text}[:]"

    def _written_rank(self, target: ast.Subscript) -> int | None:
        """The rank of what was written, from the copy or fill that did it."""
        if self.sites.op(target, "aten::fill_") is not None:
            return 0
        op = self.sites.op(target, "aten::copy_")
        return len(op.shapes[1]) if op is not None and len(op.shapes) > 1 else None

    def _fitted(self, value: Value, region: Batched, seen: int | None) -> str:
        """The text of a value in the arrangement of the tensor that it meets."""
        if isinstance(value, Fixed):
            rank = seen if value.rank is None else value.rank
            if rank is not None and rank > region.round_rank:
                raise RefusedError("the value has more dimensions than the slice")
            return meeting(replace(value, rank=rank), region)
        if seen is not None and seen != value.round_rank:
            raise RefusedError("the run saw other dimensions in the value that is written")
        return meeting(value, region)

    def _as_masked_fill(self, value: ast.expr, region: Batched) -> str | None:
        """`x[:, t] = torch.where(keep, x[:, t], c)` and `x[:, t] = x[:, t].masked_fill(m, c)` as one `masked_fill_`."""
        if not isinstance(value, ast.Call) or value.keywords:
            return None
        if _is_where(self.lifter, value) and len(value.args) == 3:
            keep, yes, no = (self.lifter.lift(a) for a in value.args)
            self.lifter.meet([keep, region])
            if isinstance(keep, Fixed) or keep.round_rank > region.round_rank:
                return None
            if self._is_region(yes, region) and self._scalar(value, 2, no) is not None:
                mask, fill = _negated(keep, meeting(keep, region)), self._scalar(value, 2, no)
            elif self._is_region(no, region) and self._scalar(value, 1, yes) is not None and keep.boolean:
                mask, fill = meeting(keep, region), self._scalar(value, 1, yes)
            else:
                return None
        elif isinstance(value.func, ast.Attribute) and value.func.attr == "masked_fill" and len(value.args) == 2:
            source, hit, given = (self.lifter.lift(a) for a in (value.func.value, *value.args))
            self.lifter.meet([hit, region])
            fill = given.text if isinstance(given, Fixed) else None
            if not self._is_region(source, region) or isinstance(hit, Fixed) or fill is None:
                return None
            if hit.round_rank > region.round_rank:
                return None
            mask = meeting(hit, region)
        else:
            return None
        return f"{region.text}.masked_fill_({mask}, {fill})"

    @staticmethod
    def _is_region(value: Value, region: Batched) -> bool:
        return (
            isinstance(value, Batched)
            and value.view
            and (plain_text(value.text), value.rank, value.loops, value.slots)
            == (region.text, region.rank, region.loops, region.slots)
        )

    def _scalar(self, call: ast.Call, position: int, value: Value) -> str | None:
        """The one number that a value consists of, as its text."""
        if isinstance(value, Batched):
            return value.fill
        if value.rank == 0:
            return value.text
        op = self.sites.op(call, "aten::where")
        scalar = op is not None and len(op.shapes) > position and op.shapes[position] == ()
        return value.text if scalar and value.rank is None else None

    def _write_lengths(self, node: ast.Assign, target: ast.Subscript) -> None:
        """`mask[b, : lengths[b]] = True`: the rounds' slices differ in length, so positions are compared with it."""
        items = index_items(target)
        cuts = [i for i in items if isinstance(i, ast.Slice) and self._varies(i)]
        inner = target.value
        if isinstance(inner, ast.Subscript) and dotted(inner.value) is not None and len(index_items(inner)) == 1:
            # `mask[b][: n[b]]` is `mask[b, : n[b]]`.
            items, inner = [*index_items(inner), *items], inner.value
        if len(cuts) != 1 or cuts[0].step is not None or any(isinstance(i, ast.Constant) for i in items):
            raise RefusedError(f"`{self._text(target)}` has no single length per round")
        if self.sites.op(target, "aten::copy_") is not None:
            raise RefusedError("slices of different lengths get tensors")
        cut = cuts[0]
        lower, upper = cut.lower, cut.upper
        if (lower is None) == (upper is None):
            raise RefusedError(f"`{self._text(target)}` has two bounds per round")
        value = self.lifter.lift(node.value)
        if isinstance(value, Batched):
            raise RefusedError("slices of different lengths get values of their own")
        if self._varies(inner):
            region = self.lifter.lift(inner)
            region = _unmarked(region) if isinstance(region, Batched) else region
            place = root(ast.parse(region.text, mode="eval").body) or ""
            if isinstance(region, Fixed) or not region.view or len(items) > region.round_rank:
                raise RefusedError(f"`{self._text(target)}` is not a plain slice to write to")
            if any(isinstance(i, ast.Slice) and i is not cut and (i.lower or i.upper or i.step) for i in items):
                raise RefusedError(f"`{self._text(target)}` is not a plain slice to write to")
            self.written += [(self._text(target), place), (self._text(inner), place)]
            slot = axis = region.slots[items.index(cut)]
            base = f"{wrapped(region.text, region.atom)}"
        else:
            self.written += [(self._text(t), dotted(inner) or "") for t in (target, target.value)]
            whole = ast.copy_location(
                ast.Subscript(inner, ast.Tuple([ast.Slice() if i is cut else i for i in items]), ast.Store()), target
            )
            ranked = target if inner is target.value else target.value
            region = _unmarked(self.lifter.index_of_rank(whole, index_items(whole), self._rank_of_target(ranked)))
            axis, base = items.index(cut), self._text(inner)
            # A number in front of the cut that is no counter takes a dimension away.
            slot = axis - sum(not isinstance(i, ast.Slice) and not self.lifter.is_counted(i) for i in items[:axis])
        if slot is None or axis is None or None in region.slots or len(region.loops) != 1:
            raise RefusedError(f"`{self._text(target)}` is not a plain slice to write to")
        made = self._made_of_compare(inner, value, region)
        device, size = (
            (made.device, made.size(axis)) if made is not None else (f"{base}.device", f"{base}.size({axis})")
        )
        where = f", device={device}" if device else ""
        lengths, late = self._lengths(upper if upper is not None else lower, device)
        sign = ("<=" if late else "<") if upper is not None else (">" if late else ">=")
        positions = f"{self.lifter.torch}.arange({size}{where})"
        mask = Batched(
            f"{positions} {sign} {lengths}", 2, (0,), tuple(1 if s == slot else None for s in region.slots), atom=False
        )
        text = meeting(mask, region)
        if made is not None:
            self.lines.append(f"{made.name} = {made.finished(text, text == mask.text)}")
            self.made[self.lines[-1]] = made
            return
        self.lines.append(f"{region.text}.masked_fill_({text}, {value.text})")

    def _made_of_compare(self, inner: ast.expr, value: Fixed, region: Batched) -> MadeMask | None:
        """How the tensor is made of a comparison alone, if it starts all one way and the loop sets the other."""
        if not isinstance(inner, ast.Name) or region.text != inner.id:
            return None
        return made_mask(self.sites, self.lifter.loops[0], inner.id, value.text)

    def _lengths(self, bound: ast.expr | None, device: str) -> tuple[str, bool]:
        """The text of all rounds' lengths as a column on a device, and whether it is one less than them.

        They may be a tensor or a list of numbers; that they are slice bounds tells that each is one integer.
        """
        if bound is None:
            raise RefusedError("a slice has no bound")
        where = f", device={device}" if device else ""
        counted = self.lifter.numbers(bound, where)
        if counted is not None:
            return f"{counted[0]}[:, None]", counted[1] == 1
        listed = self._listed(bound)
        if listed is not None:
            return f"{self.lifter.torch}.as_tensor({listed}{where})[:, None]", False
        value = self.lifter.lift(bound)
        if isinstance(value, Fixed) or value.slots:
            raise RefusedError("the length of a slice is not one number per round")
        column = indexed(value.text, [":", "None"], atom=value.atom)
        if value.cut is not None:
            column = indexed(value.cut.stem, [value.cut.slices[0], "None"], atom=value.cut.atom)
        return f"{column}.to({device})" if device else f"{column}.cpu()", False

    def _listed(self, bound: ast.expr) -> str | None:
        """The text of a list of numbers that `bound` takes the round's element of."""
        loop = self.lifter.loop
        if isinstance(bound, ast.Name) and bound.id in loop.elements:
            element = loop.elements[bound.id]
            if (
                element.partners
                or element.kept
                or element.pieces is not None
                or element.axis != 0
                or self._varies(element.base)
            ):
                return None
            base = element.base
            unbound = any(self.sites.op(n, "aten::unbind") for n in (base, self.sites.tree.parent(base)) if n)
            if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr == "tolist":
                return self._text(base.func.value)
            return self._text(base) if dotted(base) is not None and not unbound else None
        if not isinstance(bound, ast.Subscript) or not isinstance(bound.slice, ast.Name) or self.sites.cost(bound):
            return None
        if bound.slice.id != loop.index or dotted(bound.value) is None or self._varies(bound.value):
            return None
        return indexed(self._text(bound.value), [self.lifter.window(loop, bound.value, 0, 1)])

    def _rank_of_target(self, target: ast.expr) -> int:
        rank = self.sites.base_rank(target) if isinstance(target, ast.Subscript) else None
        if rank is None:
            raise RefusedError(f"the run does not tell how many dimensions `{self._text(target)}` takes from")
        return rank

    def _update(self, node: ast.AugAssign, target: ast.Subscript) -> None:
        """`x[:, t] += v`, or a sum over an inner loop's rounds if the slice is the same in all of them."""
        region = self._region(target)
        op = next((o for o in self._ops(node) if o.outermost and o.name.endswith("_") and len(o.shapes) > 1), None)
        seen = len(op.shapes[1]) if op is not None else None
        value = self.lifter.lift(node.value)
        if None in region.loops and isinstance(node.op, (ast.Add, ast.Sub)) and isinstance(value, Batched):
            region, value = self._summed_into(target, region, value)
        text = self._fitted(value, self._whole(region, target), seen)
        if len(region.loops) == self.lifter.depth:
            self.lifter.meet([value, region])
        self.lines.append(splice(self.sites.source, node, {node.target: region.text, node.value: text}))

    def _summed_into(self, target: ast.expr, region: Batched, value: Batched) -> tuple[Batched, Batched]:
        """A slice and what all rounds of the loops that do not move it add to it."""
        while region.loops and region.loops[-1] is None:
            value = reduced_over_last(value, "sum")
            region = replace(region, loops=region.loops[:-1])
        if not region.loops:
            raise RefusedError(f"`{self._text(target)}` is the same slice in every round")
        return region, value

    def _ops(self, node: ast.AST):
        cost = self.sites.cost(node)
        return cost.ops if cost is not None else ()

    def _inplace(self, call: ast.Call, func: ast.Attribute) -> None:
        """`x[:, t].masked_fill_(m, c)`."""
        region = self._whole(self._region(func.value), func.value)
        op = self.sites.op(call, f"aten::{func.attr}")
        seen = [len(s) for s in op.shapes[1:]] if op is not None else []
        parts: dict[ast.expr, str] = {func.value: wrapped(region.text, region.atom)}
        for position, arg in enumerate(call.args):
            rank = seen[position] if position < len(seen) else None
            given = self.lifter.lift(arg)
            self.lifter.meet([given, region])
            parts[arg] = self._fitted(given, region, rank)
        if isinstance(func.value, ast.Name):
            # A view under a name of its own: the write goes to what it is a view of.
            self.written.append((func.value.id, root(ast.parse(region.text, mode="eval").body) or ""))
        self.lines.append(splice(self.sites.source, call, parts))

    # -- loops inside the loop

    def _inner(self, node: ast.For | ast.While) -> None:
        loop = loop_of(self.sites, node)
        if loop is None:
            raise RefusedError("a loop inside the loop does not count up or run over a tensor")
        if loop.counted is not None or (loop.stop is not None and self.lifter.varies(loop.stop) and loop.index is None):
            raise RefusedError("the number of rounds changes inside the loop")
        inner = Rounds(self.sites, loop, self.unit, self.lifter.deeper(loop))
        inner.totals = self.totals
        for _, lines in inner.block(loop.body):
            self.lines += lines
        self.written += inner.written
        self.filled |= inner.filled
        self.writes += inner.writes
        self.loops += inner.loops
        self.rebound |= inner.rebound
        self.bound |= inner.bound
        for appended in inner.appended:
            if appended.name in self.started:
                if appended.name in self.lifter.lists:
                    raise RefusedError(f"`{appended.name}` is filled in several places")
                value = appended.value
                self.lifter.lists[appended.name] = flipped(value) if loop.backwards else value
            else:
                raise RefusedError(f"`{appended.name}` grows in a loop inside the loop")

    # -- conditions

    def _if(self, node: ast.If) -> None:
        if not self.lifter.varies(node.test):
            return self._same_branch(node)
        return self._select(node.test, node.body, node.orelse)

    def _skipped(self, node: ast.If, rest: Sequence[ast.stmt]) -> None:
        if not self.lifter.varies(node.test):
            raise RefusedError(f"line {node.lineno} may leave the round early")
        self._select(ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test), rest, [])

    def _same_branch(self, node: ast.If) -> None:
        """A branch that all rounds take or none: the condition stays around its lines."""
        self.lifter.require_pure(node.test)
        bound = {name for part in (*node.body, *node.orelse) for name in names_bound(part)}
        for name in sorted(bound):
            before = self.lifter.values.get(name)
            if isinstance(before, Batched) and before.view:
                self.lines.append(f"{name} = {before.text}")
                self.lifter.values[name] = replace(before, text=name, atom=True, cut=None)
        before, count = dict(self.lifter.values), len(self.appended)
        texts: list[list[str]] = []
        after: list[dict[str, Value]] = []
        for branch in (node.body, node.orelse):
            self.lifter.values = dict(before)
            texts.append([line for _, lines in self.block(branch) for line in lines])
            after.append(self.lifter.values)
        if len(self.appended) != count:
            raise RefusedError("what a list gets depends on a condition")
        if any(line in self.made for lines in texts for line in lines):
            raise RefusedError("a mask is made under a condition")
        self.filled = {
            line: filled for line, filled in self.filled.items() if line not in {t for b in texts for t in b}
        }
        self.lifter.values = before
        for name in sorted(bound - self.totals):
            one, other = (values.get(name) for values in after)
            if one is None or other is None:
                self.lifter.values.pop(name, None)
            elif not _same_shape(one, other, name):
                raise RefusedError(f"`{name}` has other dimensions after one branch than after the other")
            else:
                view = isinstance(one, Batched) and isinstance(other, Batched) and (one.view or other.view)
                if view and self.lifter.writes:
                    raise RefusedError(f"`{name}` may or may not be a copy of what the loop writes to")
                self.lifter.values[name] = replace(one, view=view) if isinstance(one, Batched) else one
                self.rebound.add(name)
        lines = [f"if {self._text(node.test)}:", *(self._indented(texts[0] or ["pass"]))]
        if texts[1]:
            lines += ["else:", *self._indented(texts[1])]
        self.lines.append("\n".join(lines))

    def _indented(self, lines: Sequence[str]) -> list[str]:
        return [f"{self.unit}{row}" for line in lines for row in line.split("\n")]

    def _select(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        """A branch on each round's own value: both sides are computed and each round's is selected."""
        condition = self.lifter.condition(test)
        if condition.slots and any(s is not None for s in condition.slots):
            raise RefusedError("a condition has several elements")
        condition = replace(condition, slots=())
        if any(not _is_harmless(self.lifter, s) for s in (*body, *orelse)):
            raise RefusedError("a branch may guard what it computes")
        before = set(self.lifter.values)
        pairs = _pairs(self._without_own(body), self._without_own(orelse))
        if pairs is None:
            raise RefusedError("the branches do different things")
        if len(pairs) > 1:
            # What the first of them changes may be what the condition asks.
            name = fresh_name(self.loop.function, "taken")
            self.lines.append(f"{name} = {condition.text}")
            condition = replace(condition, text=name, atom=True, cut=None)
        for pair in pairs:
            self._selected(condition, *pair)
        for name in set(self.lifter.values) - before:
            del self.lifter.values[name]

    def _without_own(self, branch: Sequence[ast.stmt]) -> list[ast.stmt]:
        """A branch without the names that it starts with and has to itself, which all rounds get."""
        rest = [*branch]
        while len(rest) > 1 and isinstance(rest[0], ast.Assign):
            target = rest[0].targets[0]
            if not isinstance(target, ast.Name) or len(rest[0].targets) > 1 or target.id in self.lifter.values:
                break
            self._bind(target.id, rest[0].value)
            rest.pop(0)
        return rest

    def _selected(self, condition: Batched, yes: ast.stmt | None, no: ast.stmt | None) -> None:
        """One target that a branch gives a value, or both do."""
        target = _target_of(yes or no)
        if isinstance(target, ast.Subscript):
            region = self._whole(self._region(target), target)
            old: Batched = region
            values = [self._after(s, target, region) if s is not None else region for s in (yes, no)]
            for statement in (yes, no):
                other = _target_of(statement)
                if isinstance(other, ast.Subscript):
                    self.written.append((self._text(other), self.written[-1][1]))
        elif isinstance(target, ast.Name):
            current = self.lifter.values.get(target.id)
            if not isinstance(current, Batched):
                raise RefusedError(f"`{target.id}` carries a value from one round to the next")
            old = current
            values = [self._after(s, target, current) if s is not None else current for s in (yes, no)]
        else:
            raise RefusedError("a branch does more than compute a value")
        self.lifter.meet([condition, *values])
        texts, shape = together([condition, *values])
        text = f"{self.lifter.torch}.where({', '.join(t for t, _ in texts)})"
        chosen = replace(shape, text=text)
        if chosen.round_rank != old.round_rank:
            raise RefusedError("a branch changes the number of dimensions")
        if isinstance(target, ast.Name):
            self._forget(target.id)
            self.rebound.add(target.id)
            self.lines.append(f"{target.id} = {text}")
            self.lifter.values[target.id] = replace(chosen, text=target.id, atom=True)
            return
        filled = self._filling(condition, values, old)
        self.lines.append(filled or f"{self._assignable(old)} = {meeting(chosen, old)}")

    def _filling(self, condition: Batched, values: Sequence[Value], region: Batched) -> str | None:
        """One `masked_fill_` where a branch writes a number."""
        value, kept = values
        if not isinstance(value, Fixed) or kept is not region or value.rank != 0:
            return None
        return f"{region.text}.masked_fill_({meeting(condition, region)}, {value.text})"

    def _after(self, node: ast.stmt, target: ast.expr, old: Batched) -> Value:
        """What a branch's statement makes of `target`."""
        if isinstance(node, ast.AugAssign):
            sign = _SIGNS.get(type(node.op))
            value = self._known(self.lifter.lift(node.value), node)
            if sign is None:
                raise RefusedError("a branch does more than compute a value")
            self.lifter.meet([old, value])
            texts, shape = together([old, value])
            one, other = (wrapped(text, atom) for text, atom in texts)
            literal = isinstance(node.value, ast.UnaryOp) and isinstance(node.value.operand, ast.Constant)
            return replace(shape, text=f"{one} {sign} {texts[1][0] if literal else other}", atom=False)
        assert isinstance(node, ast.Assign)
        value = self.lifter.lift(node.value)
        if isinstance(value, Fixed) and value.rank is None:
            seen = self._written_rank(target) if isinstance(target, ast.Subscript) else None
            return replace(value, rank=seen)
        return value

    def _varies(self, node: ast.AST) -> bool:
        return self.lifter.varies(node)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self.sites.tree.text(node)


def _unmarked(region: Batched) -> Batched:
    """A region that is written to, with its slices as they are: an assignment needs an index."""
    cut = region.cut
    plain = None if cut is None else replace(cut, slices=tuple(plain_text(item) for item in cut.slices))
    return replace(region, text=plain_text(region.text), cut=plain)


_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


def _up_to(ancestors: Iterable[ast.AST], last: ast.AST) -> Iterator[ast.AST]:
    for node in ancestors:
        if node is last:
            return
        yield node


def _skips(body: Sequence[ast.stmt]) -> bool:
    return len(body) == 1 and isinstance(body[0], ast.Continue)


def is_empty(value: ast.expr) -> bool:
    """`[]` and `list()`."""
    if isinstance(value, ast.Call):
        return dotted(value.func) == "list" and not value.args
    return isinstance(value, ast.List) and not value.elts


def _same_shape(one: Value, other: Value, name: str) -> bool:
    if isinstance(one, Fixed) or isinstance(other, Fixed):
        return isinstance(one, Fixed) and isinstance(other, Fixed) and one.rank == other.rank
    same = (one.rank, one.loops, one.slots) == (other.rank, other.loops, other.slots)
    return same and one.text == other.text == name


_Pair = tuple[ast.stmt | None, ast.stmt | None]


def _pairs(body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> list[_Pair] | None:
    """The statements of two branches that give the same target a value, side by side. None if they do not match."""
    one = [s for s in body if not isinstance(s, ast.Pass)]
    other = [s for s in orelse if not isinstance(s, ast.Pass)]
    if any(_target_of(s) is None for s in (*one, *other)):
        return None
    if not one or not other:
        return [*((s, None) for s in one), *((None, s) for s in other)]
    if [ast.unparse(t) for s in one if (t := _target_of(s))] != [ast.unparse(t) for s in other if (t := _target_of(s))]:
        return None
    return [*zip(one, other, strict=True)]


def _target_of(statement: ast.stmt | None) -> ast.expr | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0]
    return statement.target if isinstance(statement, ast.AugAssign) else None


def _is_harmless(lifter: Lifter, statement: ast.stmt) -> bool:
    """Whether a branch's statement may be computed for rounds that skipped it."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Div) and lifter.varies(statement.value):
        return False
    for node in ast.walk(statement):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            if not isinstance(node.op, ast.Div) or lifter.varies(node.right):
                return False
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else None
            if name not in _HARMLESS:
                return False
        elif isinstance(node, (ast.NamedExpr, ast.IfExp, ast.Await, ast.Yield)):
            return False
    return True


def summed(value: Batched, method: str = "sum") -> str:
    """All rounds' values added up, or put together by another reduction."""
    if len(live_loops([value])) != len(value.loops):
        raise RefusedError("every round of a loop gives the same value")
    put = seen_in(value, live_loops([value]))
    put = arranged(put, put.natural)
    dims = ", ".join(str(d) for d in put.loops)
    return f"{wrapped(put.text, put.atom)}.{method}({dims if len(put.loops) == 1 else f'({dims})'})"


def running_value(module: ast.Module, node: ast.Assign) -> tuple[str, ast.expr] | None:
    """`("amax", part)` for `best = torch.maximum(best, part)`."""
    call, name = node.value, dotted(node.targets[0])
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords:
        return None
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _RUNNING:
        return None
    if not is_torch_function(module, call.func):
        return None
    one, other = call.args
    if dotted(one) == name:
        return _RUNNING[call.func.attr], other
    return (_RUNNING[call.func.attr], one) if dotted(other) == name else None


def _is_where(lifter: Lifter, call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "where" and lifter.is_library(call.func)


def _negated(mask: Batched, text: str) -> str:
    """The opposite of a condition. Only booleans have a `~` that means "not"."""
    atom = mask.atom or text != mask.text
    return f"~{wrapped(text, atom)}" if mask.boolean else f"{wrapped(text, atom)} == 0"


def added_to_itself(node: ast.stmt) -> tuple[ast.expr, ...]:
    """What a statement adds to a name, or takes from it: `a` and `b` of `x = x + a - b`, `a` of `x += a`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return (node.value,) if isinstance(node.op, (ast.Add, ast.Sub)) else ()
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return ()
    name, value, parts = node.targets[0].id, node.value, list[ast.expr]()
    while isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        if dotted(value.right) == name and isinstance(value.op, ast.Add) and dotted(value.left) != name:
            return (*reversed([*parts, value.left]),)
        parts.append(value.right)
        value = value.left
    return (*reversed(parts),) if parts and dotted(value) == name else ()
