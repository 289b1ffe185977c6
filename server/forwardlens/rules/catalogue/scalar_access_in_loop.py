"""Python reads or writes a tensor one element at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar, Literal

from forwardlens.model import Edit, Fix
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import by_loop
from forwardlens.rules.catalogue.embedding_in_loop import EmbeddingInLoop
from forwardlens.rules.catalogue.masking_in_loop import MaskingInLoop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of
from forwardlens.rules.loops import leaves_early, loop_of
from forwardlens.rules.repeated import LEAST_ROUNDS, body, bound_in, head, in_rounds, place
from forwardlens.rules.rounds import (
    claimed,
    independent,
    is_element,
    only_elements,
    outermost,
    pairs,
    share_of,
    working,
)
from forwardlens.rules.vectorise import vectorised
from forwardlens.source.dataflow import aliases, fresh_name, names_bound, overlap
from forwardlens.source.rewrite import checked, insert_before, replace_node, stands_alone
from forwardlens.source.tree import Function, Looping, dotted, integer, walk

_NUMBERS = frozenset({"int", "float", "bool", "round", "range"})
_READ = ("aten::item", "aten::_local_scalar_dense")
# `tolist` makes a Python number of every element; this many for each one that is read are worth it.
_MOST_UNREAD = 8


class ScalarAccessInLoop(Rule):
    """## What it does
    Finds loops that take a tensor apart element by element: `starts[i].item()`, `int(lengths[b])`, arithmetic on
    `x[i, j]`, or writes to one element at a time.

    ## Why it costs
    Every element costs an indexing operator and a Python object, thousands of times what the arithmetic costs. Where
    the value becomes a Python number, the host also waits for the device, once per element.

    ## When to ignore it
    When a value ends the loop early and so saves work: that is not reported. Where values decide between branches,
    `torch.where` with `gather` and `scatter` is the form for all elements, which needs a human look: positions that
    occur twice count once there.

    ## Fix safety
    Reading once is offered as safe if the loop leaves the tensor alone and indexes it by counters only: `tolist()`
    in front of the loop gives the same numbers. Work on single elements is replaced as a whole if every round is
    independent and each expression has a form for all rounds.
    """

    name: ClassVar[str] = "scalar-access-in-loop"
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {"host-sync": "expression"}
    summary: ClassVar[str] = "A tensor read or written one element at a time"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "items-by-counter",
            """\
import torch
from torch import nn


class Spans(nn.Module):
    def forward(self, starts, sizes):
        spans = []
        for i in range(len(starts)):
            spans.append((starts[i].item(), int(sizes[i])))  #!
        return torch.tensor(spans)


def build():
    return Spans(), (torch.arange(40), torch.arange(40))
""",
            """\
import torch
from torch import nn


class Spans(nn.Module):
    def forward(self, starts, sizes):
        spans = []
        starts_list = starts.tolist()
        sizes_list = sizes.long().tolist()
        for i in range(len(starts)):
            spans.append((starts_list[i], sizes_list[i]))
        return torch.tensor(spans)


def build():
    return Spans(), (torch.arange(40), torch.arange(40))
""",
        ),
        Example(
            "items-of-a-table",
            """\
import torch
from torch import nn


class Table(nn.Module):
    def forward(self, costs):
        best = 0.0
        for i in range(costs.size(0)):
            for j in range(costs.size(1)):
                best = max(best, float(costs[i, j]))  #!
        return torch.tensor(best)


def build():
    return Table(), (torch.rand(8, 9),)
""",
            """\
import torch
from torch import nn


class Table(nn.Module):
    def forward(self, costs):
        best = 0.0
        costs_list = costs.tolist()
        for i in range(costs.size(0)):
            for j in range(costs.size(1)):
                best = max(best, float(costs_list[i][j]))
        return torch.tensor(best)


def build():
    return Table(), (torch.rand(8, 9),)
""",
        ),
        Example(
            "iterated",
            """\
import torch
from torch import nn


class Sizes(nn.Module):
    def forward(self, sizes):
        ends, end = [], 0
        for size in sizes:
            end += size.item()  #!
            ends.append(end)
        return torch.tensor(ends)


def build():
    return Sizes(), (torch.arange(40),)
""",
            """\
import torch
from torch import nn


class Sizes(nn.Module):
    def forward(self, sizes):
        ends, end = [], 0
        for size in sizes.tolist():
            end += size
            ends.append(end)
        return torch.tensor(ends)


def build():
    return Sizes(), (torch.arange(40),)
""",
        ),
        Example(
            "slice-bounds",
            """\
import torch
from torch import nn


class Means(nn.Module):
    def forward(self, x, lengths):
        return torch.stack([x[b, : lengths[b]].mean() for b in range(x.size(0))])  #!


def build():
    return Means(), (torch.rand(24, 9), torch.arange(24) % 8 + 1)
""",
            """\
import torch
from torch import nn


class Means(nn.Module):
    def forward(self, x, lengths):
        lengths_list = lengths.tolist()
        return torch.stack([x[b, : lengths_list[b]].mean() for b in range(x.size(0))])


def build():
    return Means(), (torch.rand(24, 9), torch.arange(24) % 8 + 1)
""",
        ),
        Example(
            "element-by-element",
            """\
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x, y):
        out = torch.zeros_like(x)
        for i in range(x.size(0)):
            out[i] = x[i] * y[i]  #!
        return out


def build():
    return Blend(), (torch.rand(40), torch.rand(40))
""",
            """\
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x, y):
        out = x * y
        return out


def build():
    return Blend(), (torch.rand(40), torch.rand(40))
""",
        ),
        Example(
            "value-decides-the-branch",
            """\
import torch
from torch import nn


class Fold(nn.Module):
    def forward(self, x):
        x = x.clone()
        for i in range(x.size(0)):
            if x[i] < 0: x[i] *= -1.0  #!
        return x


def build():
    return Fold(), (torch.randn(40),)
""",
            """\
import torch
from torch import nn


class Fold(nn.Module):
    def forward(self, x):
        x = x.clone()
        x[:] = torch.where(x < 0, x * -1.0, x)
        return x


def build():
    return Fold(), (torch.randn(40),)
""",
        ),
        Example(
            "tensor-changes-meanwhile",
            """\
import torch
from torch import nn


class Queue(nn.Module):
    def forward(self, x):
        x, seen = x.clone(), []
        for i in range(x.size(0)):
            seen.append(x[i].item())  #!
            x += 1
        return torch.tensor(seen)


def build():
    return Queue(), (torch.zeros(40),)
""",
        ),
        Example(
            "ends-early",
            """\
import torch
from torch import nn


class First(nn.Module):
    def forward(self, x):
        for i in range(x.size(0)):
            if x[i].item() > 0.9:
                break
        return x + i


def build():
    return First(), (torch.linspace(0, 1, 40),)
""",
        ),
        Example(
            "read-once",
            """\
import torch
from torch import nn


class Spans(nn.Module):
    def forward(self, starts):
        return torch.tensor([(start, start + 1) for start in starts.tolist()])


def build():
    return Spans(), (torch.arange(40),)
""",
        ),
        Example(
            "decay-per-step",
            """\
import torch
from torch import nn


class Decay(nn.Module):
    def forward(self, x, decay):
        state = x[0]
        for t in range(x.size(0)):
            state = state * decay[t] + x[t]
        return state


def build():
    return Decay(), (torch.randn(40, 8), torch.rand(40))
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        nodes = [n for n, c in sites.items() if in_rounds(c) and (_reads_number(sites, n) or is_element(sites, n))]
        loops = by_loop(sites, nodes)
        taken = claimed(context, sites, (EmbeddingInLoop(), MaskingInLoop())) if loops else {}
        for loop, accesses in loops.items():
            assert isinstance(loop, Looping)
            if loop not in taken and not leaves_early(loop):
                match = _reading(sites, loop, accesses) or _working(sites, loop, accesses)
                if match is not None:
                    yield match


def _reads_number(sites: Sites, node: ast.AST) -> bool:
    cost = sites.cost(node)
    return cost is not None and cost.op_calls(*_READ) >= LEAST_ROUNDS


# -- elements that become Python numbers


@dataclass(frozen=True)
class _Read:
    """An expression that makes a Python number of `base[items]`, or of the loop's variable `base` itself."""

    node: ast.expr
    base: ast.expr
    items: tuple[ast.expr, ...]
    elements: int


def _reading(sites: Sites, loop: Looping, nodes: list[ast.AST]) -> Match | None:
    reading = [n for n in nodes if _reads_number(sites, n)]
    if not reading:
        return None
    reads = [read for part in body(loop) for node in walk(part) if (read := _read_of(sites, node)) is not None]
    reads += _iterated_reads(sites, loop)
    reads = [r for r in reads if any(r.node in list(walk(n)) or n in list(walk(r.node)) for n in reading)]
    if not reads:
        return None
    reads.sort(key=lambda read: sites.source.span(read.node).start)
    hot = max(reading, key=lambda n: sites.share(n))
    share = sites.share(*reading, *(r.node for r in reads))
    calls = sum(cost.op_calls("aten::item") for n in reading if (cost := sites.cost(n)) is not None)
    fix: Fix | None = None
    message = (
        f"This loop makes Python numbers of single elements {calls} times in one forward, {percent(share)} of it: "
        "each pays an indexing operator and makes the host wait for the device"
    )
    try:
        fix = Fix("Read all elements before the loop", "safe", _hoisted(sites, loop, reads))
    except RefusedError as refused:
        message = f"{message}; read them once with `tolist()`, or keep them tensors. No automatic fix: {refused}"
    return Match(
        place(sites, hot),
        message,
        share,
        {"reads": calls},
        (head(sites, loop),),
        (fix,) if fix is not None else (),
    )


def _read_of(sites: Sites, node: ast.AST) -> _Read | None:
    """`starts[i].item()`, or `starts[i]` inside `int(starts[i])`, `range(starts[i])` and `x[: starts[i]]`."""
    element, whole = node, node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        element = node.func.value
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        parent = sites.tree.parent(node)
        called = isinstance(parent, ast.Call) and dotted(parent.func) in _NUMBERS and node in parent.args
        if not called and not isinstance(parent, ast.Slice):
            return None
    if not isinstance(element, ast.Subscript) or not isinstance(whole, ast.expr):
        return None
    items: list[ast.expr] = []
    base: ast.expr = element
    cost, ranks, numel = None, 0, 0
    while isinstance(base, ast.Subscript):
        items = [*index_items(base), *items]
        cost = sites.cost(base) or cost
        base = base.value
    if cost is None or dotted(base) is None:
        return None
    for op in outermost(cost):
        if op.name == "aten::select" and op.shapes and len(op.shapes[0]) > ranks:
            ranks, numel = len(op.shapes[0]), prod(op.shapes[0])
    return _Read(whole, base, tuple(items), numel) if ranks == len(items) else None


def _iterated_reads(sites: Sites, loop: Looping) -> list[_Read]:
    """`s.item()` and `int(s)` of `for s in starts`, if nothing else reads `s`."""
    counted = loop_of(sites, loop)
    found: list[_Read] = []
    for name, element in (counted.elements if counted is not None else {}).items():
        own: list[_Read] = []
        for read in (n for part in body(loop) for n in walk(part) if isinstance(n, ast.Name) and n.id == name):
            parent = sites.tree.parent(read)
            call = sites.tree.parent(parent) if isinstance(parent, ast.Attribute) and parent.attr == "item" else None
            if isinstance(call, ast.Call) and call.func is parent:
                own.append(_Read(call, element.base, (), 0))
            elif isinstance(parent, ast.Slice) or (isinstance(parent, ast.Call) and dotted(parent.func) in _NUMBERS):
                own.append(_Read(read, element.base, (), 0))
            else:
                break
        else:
            if element.axis == 0 and dotted(element.base) is not None and _is_vector(sites, element.base):
                found += own
    return found


def _is_vector(sites: Sites, base: ast.expr) -> bool:
    """Whether iterating over `base` gives single elements, from the `unbind` that did it."""
    for node in (base, sites.tree.parent(base)):
        cost = sites.cost(node) if node is not None else None
        for op in outermost(cost) if cost is not None else ():
            if op.name == "aten::unbind" and op.shapes:
                return len(op.shapes[0]) == 1 and op.shape_variants == 1
    return False


def _hoisted(sites: Sites, loop: Looping, reads: list[_Read]) -> tuple[Edit, ...]:
    """Read each tensor once before the loop. Raises `RefusedError`."""
    tree = sites.tree
    function = tree.function(loop)
    if function is None:
        raise RefusedError("the loop is not inside a function")
    edits: list[Edit] = []
    lists: dict[str, str] = {}
    made: dict[ast.stmt, list[str]] = {}
    # Where every element goes through `int`, whole numbers can be had for all at once.
    mixed = {tree.text(read.base) for read in reads if read.items and _truncation(sites, read) is None}
    whole_numbers = {tree.text(read.base) for read in reads if read.items} - mixed
    for read in reads:
        tensor = tree.text(read.base)
        outer = _free_of(sites, function, loop, tensor)
        if not read.items:
            if isinstance(read.node, ast.Call):
                assert isinstance(read.node.func, ast.Attribute)
                edits.append(replace_node(sites.source, read.node, tree.text(read.node.func.value)))
            if tensor not in lists:
                lists[tensor] = tensor
                edits.append(replace_node(sites.source, read.base, f"{tensor}.tolist()"))
            continue
        if not all(_is_counter(sites, loop, item) for item in read.items):
            raise RefusedError(f"`{tree.text(read.node)}` is not indexed by counters alone")
        cost = sites.cost(read.node)
        calls = max([c.calls for _, c in sites.inside(read.node)], default=0) if cost is None else cost.calls
        if read.elements > _MOST_UNREAD * max(1, calls):
            raise RefusedError(f"most elements of `{tensor}` are never read")
        if tensor not in lists:
            lists[tensor] = fresh_name(function, f"{tensor.split('.')[-1]}_list")
            whole = ".long()" if tensor in whole_numbers else ""
            made.setdefault(outer, []).append(f"{lists[tensor]} = {tensor}{whole}.tolist()")
        index = "".join(f"[{tree.text(item)}]" for item in read.items)
        replaced = _truncation(sites, read) if tensor in whole_numbers else read.node
        edits.append(replace_node(sites.source, replaced or read.node, f"{lists[tensor]}{index}"))
    edits += [insert_before(tree, statement, lines) for statement, lines in made.items()]
    fitted = checked(sites.source, edits)
    if fitted is None:
        raise RefusedError("the edits do not fit together")
    return fitted


def _truncation(sites: Sites, read: _Read) -> ast.Call | None:
    """The `int(...)` around a read."""
    parent = sites.tree.parent(read.node)
    if isinstance(parent, ast.Call) and dotted(parent.func) == "int" and parent.args == [read.node]:
        return None if parent.keywords else parent
    return None


def _free_of(sites: Sites, function: Function, loop: Looping, tensor: str) -> ast.stmt:
    """The outermost statement that repeats the reads and leaves the tensor alone."""
    chosen: ast.stmt | None = None
    shared = aliases(function, tensor)
    for around in (loop, *sites.tree.loops(loop)):
        bound = any(name == tensor.split(".")[0] for name in bound_in(around))
        changed = [p for _, p in changes(sites, around)]
        if bound or any(p is None or any(overlap(p, s) for s in shared) for p in changed):
            break
        chosen = sites.tree.statement(around)
    if chosen is None or not stands_alone(sites.tree, chosen):
        raise RefusedError(f"the loop may change `{tensor}`")
    return chosen


def _is_counter(sites: Sites, loop: Looping, item: ast.expr) -> bool:
    """Whether an index is a Python number for certain: a literal, a loop's counter, or one plus or minus the other."""
    if integer(item) is not None:
        return True
    if isinstance(item, ast.BinOp) and isinstance(item.op, (ast.Add, ast.Sub, ast.Mult)):
        return _is_counter(sites, loop, item.left) and _is_counter(sites, loop, item.right)
    if not isinstance(item, ast.Name):
        return False
    for around in (loop, *sites.tree.loops(loop)):
        if item.id in bound_in(around):
            return item.id in _counters(around) and item.id not in {n for b in body(around) for n in names_bound(b)}
    return False


def _counters(loop: Looping) -> set[str]:
    """The variables of a loop that take the numbers of a `range` or an `enumerate`."""
    if isinstance(loop, ast.While):
        return set()
    heads = [(loop.target, loop.iter)] if isinstance(loop, (ast.For, ast.AsyncFor)) else []
    heads += [] if isinstance(loop, (ast.For, ast.AsyncFor)) else [(g.target, g.iter) for g in loop.generators]
    found: set[str] = set()
    for target, iterable in heads:
        called = dotted(iterable.func) if isinstance(iterable, ast.Call) else None
        if called == "range" and isinstance(target, ast.Name):
            found.add(target.id)
        elif called == "enumerate" and isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
            found.add(target.elts[0].id)
    return found


# -- work on single elements


def _working(sites: Sites, loop: Looping, nodes: list[ast.AST]) -> Match | None:
    elements = [n for n in nodes if is_element(sites, n)]
    work = working(sites, loop)
    if not elements or not work or not only_elements(sites, loop) or pairs(sites, loop):
        return None
    hot = max(
        elements, key=lambda n: sites.share(sites.tree.statement(n)) if isinstance(loop, ast.For) else sites.share(n)
    )
    cost, share = sites.cost(hot), share_of(sites, loop)
    assert cost is not None
    calls = sum(c.calls for n in elements if (c := sites.cost(n)) is not None)
    message = (
        f"This loop reads or writes single elements {calls} times in one forward, {percent(share)} of it: "
        "each access costs an operator and a Python object for one number"
    )
    fix: Fix | None = None
    try:
        if not independent(sites, loop, work):
            raise RefusedError("a round may depend on another one, or on the values")
        fix = Fix("Do all elements at once", "safe", vectorised(sites, loop))
    except RefusedError as refused:
        message = (
            f"{message}; use `gather`, `where` and `scatter` on all of them, or read them once with `tolist()`. "
            f"No automatic fix: {refused}"
        )
    return Match(
        place(sites, hot),
        message,
        share,
        {"accesses": calls},
        (head(sites, loop),),
        (fix,) if fix is not None else (),
    )
