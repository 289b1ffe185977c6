"""The host reads a value from the device in the middle of a forward."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from forwardlens.model import ExpressionCost, Fix, Related, Severity
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import arguments_of, called_function, loop_around, only_call
from forwardlens.rules.catalogue.scalar_access_in_loop import ScalarAccessInLoop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of, times
from forwardlens.rules.guards import Guard, guard_of
from forwardlens.rules.invariants import READING, is_same, name_of, once_before
from forwardlens.rules.operations import ELEMENTWISE, is_repeatable, is_torch_function
from forwardlens.rules.readouts import elements_read
from forwardlens.rules.rounds import claimed, only_elements
from forwardlens.source.dataflow import aliases_of_all, bindings, definition, names_bound, names_read, overlap
from forwardlens.source.rewrite import (
    checked,
    has_comment,
    insert_before,
    offsets,
    replace_node,
    replace_statements,
    stands_alone,
)
from forwardlens.source.tree import Function, Looping, Tree, dotted, walk

_READS = ("aten::_local_scalar_dense", "aten::item", "aten::is_nonzero")
# On a CPU a read costs nothing by itself; what it would cost elsewhere is worth a line of its own from here on.
VISIBLE_SHARE = 0.02
_LEAVING = (ast.Break, ast.Continue, ast.Return)
# What makes text of a tensor, and methods that do so of loggers and strings.
_WRITING = frozenset({"print", "str", "repr", "format"})
_LOGGING = frozenset({"debug", "info", "warning", "error", "log", "format"})
# A value is followed through so many helpers that return it.
_DEPTH = 3
_ALLOCATIONS = frozenset({"zeros", "ones", "empty", "full", "arange"})
# Arithmetic that means the same with a number and with a tensor that holds it.
_PLAIN = (ast.Add, ast.Sub, ast.Mult, ast.Div)
# What keeps a number on one side of another, and the keyword that does the same with a tensor.
_BOUNDS = {"max": "min", "min": "max"}


class HostSync(Rule):
    """## What it does
    Finds expressions that bring a tensor's value to the host: `.item()`, `float(t)`, `if t > 0:`, `.cpu()`,
    `.tolist()`, and `repeat_interleave` without `output_size`.

    ## Why it costs
    The host runs ahead of a GPU and gives it work before it is needed. A read makes the host wait until everything
    is done, and then the GPU waits for the host. It also cuts the graph of `torch.compile`, and autograd. On a CPU a
    read costs nothing: there the finding says how many there are, not what they would cost. What a test computes
    costs time everywhere.

    ## When to ignore it
    When the value ends a loop early and saves work, or sizes an allocation: that is not reported. When the program
    never runs on a GPU.

    ## Fix safety
    The fix is offered as safe where the number only takes part in arithmetic with tensors: the tensor of no
    dimensions takes its place, with `detach` because `.item()` cut the gradient as well, and with `clamp` where `max`
    or `min` bounds it. A read in a loop that gives
    the same in every round moves in front of the loop. A test that only leaves out a change, such as `clamp` to the
    bounds that it asks about, goes away where the source shows that the change is none without it: for nan, for whole
    numbers and for every other name of the tensor. `clamp` gives an element that is nan no gradient, also where no
    value is out of bounds. Any other number that decides what runs next is explained only: a tensor in its place would
    have to be read too.
    """

    name: ClassVar[str] = "host-sync"
    summary: ClassVar[str] = "The host waits for a value from the device"
    threshold_factor: ClassVar[float] = 0.0
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "number-for-arithmetic",
            """\
import torch
from torch import nn


class Peak(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)

    def forward(self, x):
        x = self.lin(x)
        peak = x.abs().max().item()  #!
        return x / (peak + 1e-6)


def build():
    return Peak(), (torch.randn(8, 32),)
""",
            """\
import torch
from torch import nn


class Peak(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)

    def forward(self, x):
        x = self.lin(x)
        peak = x.detach().abs().max()
        return x / (peak + 1e-6)


def build():
    return Peak(), (torch.randn(8, 32),)
""",
        ),
        Example(
            "float-of-a-tensor",
            """\
import torch
from torch import nn


class Centre(nn.Module):
    def forward(self, x):
        return x - float(x.mean())  #!


def build():
    return Centre(), (torch.randn(8, 32),)
""",
            """\
import torch
from torch import nn


class Centre(nn.Module):
    def forward(self, x):
        return x - x.detach().mean()


def build():
    return Centre(), (torch.randn(8, 32),)
""",
        ),
        Example(
            "branch-on-a-value",
            """\
import torch
from torch import nn


class Guard(nn.Module):
    def forward(self, x):
        if x.abs().max() > 2.0:  #!
            x = x.clamp(-2.0, 2.0)
        return x * 0.5


def build():
    return Guard(), (torch.randn(8, 32) * 9,)
""",
        ),
        Example(
            "bounds-asked-for-first",
            """\
import torch
from torch import nn


class Rollout(nn.Module):
    def __init__(self, bound=2.5):
        super().__init__()
        self.bound = bound
        self.lin = nn.Linear(64, 64)

    def forward(self, x):
        for _ in range(4):
            x = self.lin(x)
            if torch.any(x.abs() > self.bound):  # keep it stable  #!
                x = torch.clamp(x, min=-self.bound, max=self.bound)
        low = x * 0.5
        out = (low < 0.0) | (low > 1.0)
        if out.sum().item() > 0:  #!
            low.clamp_(0.0, 1.0)
        return low


def build():
    return Rollout(), (torch.randn(256, 64),)
""",
            """\
import torch
from torch import nn


class Rollout(nn.Module):
    def __init__(self, bound=2.5):
        super().__init__()
        self.bound = bound
        self.lin = nn.Linear(64, 64)

    def forward(self, x):
        for _ in range(4):
            x = self.lin(x)
            # keep it stable
            x = torch.clamp(x, min=-self.bound, max=self.bound)
        low = x * 0.5
        low = low.clamp(0.0, 1.0)
        return low


def build():
    return Rollout(), (torch.randn(256, 64),)
""",
        ),
        Example(
            "nan-asked-for-first",
            """\
import torch
from torch import nn


class Cleaned(nn.Module):
    def forward(self, x, y):
        if not torch.isfinite(x).all():  #!
            x = torch.nan_to_num(x)
        z = x / y
        mask = torch.isnan(z)
        if mask.any():  #!
            z[mask] = 0.0
        w = y.exp()
        w = torch.where(w > 4.0, 4.0, w) if (w > 4.0).any() else w  #!
        return z.exp() + x.sum() + w


def build():
    return Cleaned(), (torch.randn(64, 64), torch.randn(64, 64))
""",
            """\
import torch
from torch import nn


class Cleaned(nn.Module):
    def forward(self, x, y):
        x = torch.nan_to_num(x)
        z = x / y
        mask = torch.isnan(z)
        z = z.masked_fill(mask, 0.0)
        w = y.exp()
        w = torch.where(w > 4.0, 4.0, w)
        return z.exp() + x.sum() + w


def build():
    return Cleaned(), (torch.randn(64, 64), torch.randn(64, 64))
""",
        ),
        Example(
            "changes-more-than-the-test-asks",
            """\
import torch
from torch import nn


class Careful(nn.Module):
    def forward(self, x, mask):
        if torch.isnan(x).any():  #!
            x = torch.nan_to_num(x)
        if (x.abs() > 3.0).any():  #!
            x = x.clamp(-3.0, 3.0)
        y = x * 2
        if (y > 1).any():  #!
            y = y.clamp(0, 1)
        if mask.any():  #!
            y = y.masked_fill(mask, 0.0)
        if (y < 0).any():  #!
            y = torch.relu(y)
        return y


def build():
    return Careful(), (torch.randn(64, 64), torch.rand(64, 64) > 0.5)
""",
        ),
        Example(
            "sum-that-is-at-least-one",
            """\
import torch
import torch.nn.functional as F
from torch import nn


class Loss(nn.Module):
    def forward(self, scores, labels):
        positive = labels > 0
        count = max(positive.sum().item(), 1)  #!
        return F.binary_cross_entropy_with_logits(scores, positive.float(), reduction="sum") / count


def build():
    return Loss(), (torch.randn(4, 16), torch.randint(0, 2, (4, 16)))
""",
            """\
import torch
import torch.nn.functional as F
from torch import nn


class Loss(nn.Module):
    def forward(self, scores, labels):
        positive = labels > 0
        count = positive.detach().sum().clamp(min=1)
        return F.binary_cross_entropy_with_logits(scores, positive.float(), reduction="sum") / count


def build():
    return Loss(), (torch.randn(4, 16), torch.randint(0, 2, (4, 16)))
""",
        ),
        Example(
            "lengths-listed-in-every-round",
            """\
import torch
from torch import nn


class Split(nn.Module):
    def forward(self, q, k, ends):
        lengths = ends[1:] - ends[:-1]
        parts = [torch.split(t, lengths.tolist()) for t in (q, k)]  #!
        return torch.cat([a @ b.t() for a, b in zip(*parts)], dim=1)


def build():
    return Split(), (torch.randn(8, 4), torch.randn(8, 4), torch.tensor([0, 4, 8]))
""",
            """\
import torch
from torch import nn


class Split(nn.Module):
    def forward(self, q, k, ends):
        lengths = ends[1:] - ends[:-1]
        lengths_list = lengths.tolist()
        parts = [torch.split(t, lengths_list) for t in (q, k)]
        return torch.cat([a @ b.t() for a, b in zip(*parts)], dim=1)


def build():
    return Split(), (torch.randn(8, 4), torch.randn(8, 4), torch.tensor([0, 4, 8]))
""",
        ),
        Example(
            "length-from-the-data",
            """\
import torch
from torch import nn


class Spread(nn.Module):
    def forward(self, x, counts):
        return torch.repeat_interleave(x, counts, dim=0).sum(dim=0)  #!


def build():
    return Spread(), (torch.randn(8, 32), torch.randint(1, 4, (8,)))
""",
        ),
        Example(
            "ends-the-loop",
            """\
import torch
from torch import nn


class Settle(nn.Module):
    def forward(self, x):
        for _ in range(20):
            x = x * 0.5
            if x.abs().max().item() < 0.1:
                break
        return x


def build():
    return Settle(), (torch.randn(8, 32),)
""",
        ),
        Example(
            "written-into-a-text",
            """\
import logging

import torch
from torch import nn

log = logging.getLogger(__name__)


class Peek(nn.Module):
    def forward(self, x):
        y = x.relu()
        shown = f"mean {y.mean():.3f}"  #!
        log.error("%s and %.3f", shown, y.std())  #!
        return y


def build():
    return Peek(), (torch.randn(8, 32),)
""",
        ),
        Example(
            "settled-by-a-helper",
            """\
import torch
from torch import nn


class Settle(nn.Module):
    def settled(self, x):
        gap = x.abs().max()
        return gap.item() < 0.1

    def forward(self, x):
        for _ in range(20):
            x = x * 0.5
            if self.settled(x):
                break
        return x


def build():
    return Settle(), (torch.randn(8, 32),)
""",
        ),
        Example(
            "numbers-from-shapes",
            """\
import torch
from torch import nn


class Mean(nn.Module):
    def forward(self, x):
        count = float(x.size(0))
        if x.size(1) > 4:
            x = x.clamp(-2.0, 2.0)
        return x.sum(dim=0) / count


def build():
    return Mean(), (torch.randn(8, 32),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        guarded: set[ast.AST] = set()
        for node, cost in sites.items():
            found = _read(sites, node, cost)
            if found is None:
                continue
            guard = guard_of(sites, found)
            if (guard is None or guard.why) and _is_needed(sites, found):
                continue
            if guard is not None:
                if guard.node not in guarded:
                    yield _guarded(sites, guard, cost)
                guarded.add(guard.node)
            elif not _is_element(context, sites, found):
                yield _match(sites, found, cost)
        yield from _repeated_lists(sites)


def _is_element(context: Context, sites: Sites, node: ast.expr) -> bool:
    """Whether what reads a tensor element by element is a finding of its own, and this is one of its reads."""
    loop = next(sites.tree.loops(node), None)
    if loop is None or loop not in claimed(context, sites, (ScalarAccessInLoop(),)):
        return False
    return elements_read(sites, loop, [node]) is not None or only_elements(sites, loop)


def _read(sites: Sites, node: ast.AST, cost: ExpressionCost) -> ast.expr | None:
    """The expression that reads a value, if `node` is one and the run saw it."""
    if isinstance(node, (ast.If, ast.While, ast.Assert)):
        # The interpreter asks whether a call's result is true at the place of the statement.
        read = any(op.outermost and op.name == "aten::is_nonzero" for op in cost.ops)
        return node.test if read and not _reads_elements(sites, node.test) else None
    if not isinstance(node, ast.expr) or isinstance(getattr(node, "ctx", None), ast.Store):
        return None
    if isinstance(node, ast.Call):
        return node if _reading_call(sites, node, cost) and not _reads_elements(sites, node) else None
    names = {op.name for op in cost.ops if op.outermost}
    if isinstance(node, ast.JoinedStr):
        return node if "aten::item" in names else None
    if isinstance(node, ast.Subscript):
        # A tensor as the end of a slice. In a loop over rows it is one with the loop.
        bounded = any(isinstance(item, ast.Slice) for item in index_items(node))
        return node if bounded and "aten::item" in names and not any(sites.tree.loops(node)) else None
    parent = sites.tree.parent(node)
    tested = isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is node
    negated = isinstance(parent, (ast.UnaryOp, ast.BoolOp))
    read = "aten::is_nonzero" in names and (tested or negated)
    return node if read and not _reads_elements(sites, node) else None


def _repeated_lists(sites: Sites) -> Iterator[Match]:
    """`lengths.tolist()` in a loop that changes nothing about it. On a CPU it runs no operator; what holds it did."""
    for node in walk(sites.tree.module):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "tolist":
            continue
        loop = next(sites.tree.loops(node), None)
        ran = next((cost for above in sites.tree.ancestors(node) if (cost := sites.cost(above)) is not None), None)
        if loop is None or ran is None or ran.calls < 2 or not _is_tensor(sites, node.func.value):
            continue
        if _is_invariant(sites, node, loop):
            own = sites.cost(node)
            yield _match(sites, node, own or replace(ran, share=0.0, self_ms=0.0, total_ms=0.0, blocked_ms=0.0, ops=()))


def _is_tensor(sites: Sites, node: ast.expr) -> bool:
    """Whether a value is what an operator made."""
    function = sites.tree.function(node)
    made = definition(sites.tree, function, node.id) if function is not None and isinstance(node, ast.Name) else None
    return bool(sites.outermost(node if made is None else made.value))


def _is_text(node: ast.expr) -> bool:
    """Whether the value becomes part of a text: in a string, by `print`, by a logger."""
    func = node.func if isinstance(node, ast.Call) else None
    if isinstance(func, ast.Attribute):
        return func.attr in _LOGGING
    return isinstance(node, ast.JoinedStr) or (isinstance(func, ast.Name) and func.id in _WRITING)


def _is_needed(sites: Sites, node: ast.expr) -> bool:
    """Whether the value ends a loop or a round early and saves work, or sizes an allocation, which has to know it."""
    return any(_decides(sites.tree, use) for use in _uses(sites, node, _DEPTH))


def _uses(sites: Sites, node: ast.expr, depth: int) -> Iterator[ast.expr]:
    """Where a value goes: the expression, reads of the name that it gets, calls of the helper that returns it."""
    yield node
    statement, function = sites.tree.statement(node), sites.tree.function(node)
    around = itertools.takewhile(lambda above: above is not statement, sites.tree.ancestors(node))
    # What a tensor is computed with is no longer the value that the host has.
    if function is None or not depth or any(sites.outermost(above) for above in around):
        return
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if isinstance(target, ast.Name):
        yield from (n for n in walk(function) if isinstance(n, ast.Name) and n.id == target.id and n is not target)
    call = only_call(sites, function) if isinstance(statement, ast.Return) else None
    if call is not None:
        yield from _uses(sites, call, depth - 1)


def _decides(tree: Tree, node: ast.expr) -> bool:
    for above in tree.ancestors(node):
        if isinstance(above, ast.stmt):
            leaves = isinstance(above, ast.If) and (
                any(isinstance(n, _LEAVING) for n in walk(above)) or (_asks_any(node) and not above.orelse)
            )
            return isinstance(above, ast.While) or (leaves and any(tree.loops(above)))
        if isinstance(above, ast.Call) and _allocates(above):
            return True
    return False


def _asks_any(node: ast.expr) -> bool:
    """`mask.any()`: an empty round is left out."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "any"


def _allocates(call: ast.Call) -> bool:
    return (dotted(call.func) or "").split(".")[-1].removeprefix("new_") in _ALLOCATIONS


def _reads_elements(sites: Sites, node: ast.expr) -> bool:
    """`x[i].item()` in a loop over i: that loop reads element by element, which is another fault."""
    varying = {
        name
        for loop in sites.tree.loops(node)
        for target in (
            [loop.target] if isinstance(loop, ast.For) else [g.target for g in getattr(loop, "generators", ())]
        )
        for name in names_bound(target)
    }
    return any(isinstance(n, ast.Subscript) and names_read(n.slice) & varying for n in walk(node))


def _reading_call(sites: Sites, call: ast.Call, cost: ExpressionCost) -> bool:
    outermost = {op.name for op in cost.ops if op.outermost}
    func = call.func
    if isinstance(func, ast.Name):
        return func.id in {"float", "int", "bool", "range"} | _WRITING and bool(outermost & set(_READS))
    if not isinstance(func, ast.Attribute):
        return False
    if func.attr in _LOGGING:
        return not is_torch_function(sites.tree.module, func) and bool(outermost & set(_READS))
    if func.attr == "item":
        return cost.op_calls(*_READS) > 0
    if func.attr == "repeat_interleave":
        op = sites.op(call, "aten::repeat_interleave")
        sized = any(k.arg == "output_size" for k in call.keywords)
        return op is not None and any(len(shape) == 1 for shape in op.shapes[1:2]) and not sized
    parent = sites.tree.parent(call)
    tested = isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert, ast.UnaryOp, ast.BoolOp))
    return tested and "aten::is_nonzero" in outermost


def _match(sites: Sites, node: ast.expr, cost: ExpressionCost) -> Match:
    environment = sites.context.profile.environment
    on_device = environment.device != "cpu"
    fix, why = _fix(sites, node)
    wall = sites.context.profile.forward.wall_ms.median
    blocked = cost.blocked_ms / wall if wall else 0.0
    text = _short(sites.tree.text(node))
    told = (
        f"the host waits {cost.blocked_ms:.3g} ms for them, {percent(blocked)} of it"
        if on_device
        else "free on a CPU, a wait for everything before it on a GPU"
    )
    message = f"`{text}` reads a value from the device {times(cost.calls)} in one forward: {told}"
    share = max(blocked, cost.share) if on_device else cost.share
    severity: Severity = "info" if share >= VISIBLE_SHARE else "hint"
    loop = next(sites.tree.loops(node), None)
    head = loop.iter if isinstance(loop, ast.For) else None
    return Match(
        sites.source.span(node),
        message if fix else f"{message}. No automatic fix: {why}",
        share,
        {"reads": cost.calls, "blocked_ms": round(cost.blocked_ms, 4), "device": environment.device},
        (Related(sites.source.span(head), "the loop that repeats it"),) if head is not None else (),
        (fix,) if fix else (),
        None if on_device and blocked >= VISIBLE_SHARE else severity,
    )


# -- a test that only leaves out a change which is none where it is false


def _guarded(sites: Sites, guard: Guard, cost: ExpressionCost) -> Match:
    environment = sites.context.profile.environment
    test = guard.node.test
    wall = sites.context.profile.forward.wall_ms.median
    blocked = cost.blocked_ms / wall if wall else 0.0
    asked = sites.share(test, *([guard.made] if guard.made is not None else []))
    share = max(asked, blocked)
    fix, why = _unguarded(sites, guard) if not guard.why else (None, guard.why)
    message = (
        f"`{_short(sites.tree.text(test))}` is asked {times(cost.calls)} in one forward, {percent(share)} of it, and "
        "only decides whether a tensor is changed: on a GPU the host waits for each answer"
    )
    return Match(
        sites.source.span(test),
        message if fix else f"{message}. No automatic fix: {why}",
        share,
        {"reads": cost.calls, "blocked_ms": round(cost.blocked_ms, 4), "device": environment.device},
        (),
        (fix,) if fix else (),
        None if share >= VISIBLE_SHARE else "hint",
    )


def _unguarded(sites: Sites, guard: Guard) -> tuple[Fix | None, str]:
    tree, node = sites.tree, guard.node
    before = [guard.made] if guard.made is not None and stands_alone(tree, guard.made) else []
    parts = [*before, node.test, *(node.body if isinstance(node, ast.If) else [node.body])]
    if any(has_comment(sites.source, *offsets(sites.source, part)) for part in parts):
        return None, "a comment stands inside it"
    if "\n" in guard.text:
        return None, "the change takes several lines"
    if isinstance(node, ast.IfExp):
        edit = replace_node(sites.source, node, guard.text)
    elif stands_alone(tree, node):
        edit = replace_statements(tree, [*before, node], [*_comments_between(sites, parts), guard.text])
    else:
        return None, "other code shares a line with it"
    edits = checked(sites.source, [edit])
    return (Fix("Change it without the test", "safe", edits), "") if edits else (None, "the text does not allow it")


def _comments_between(sites: Sites, parts: Sequence[ast.expr | ast.stmt]) -> Iterator[str]:
    """The comments behind all but the last of some neighbouring pieces of code."""
    places = [offsets(sites.source, part) for part in parts]
    for (_, end), (start, _) in pairwise(places):
        for line in sites.source.text[end:start].splitlines():
            if "#" in line:
                yield line[line.index("#") :].rstrip()


def _short(text: str) -> str:
    whole = " ".join(text.split())
    return whole if len(whole) <= 60 else f"{whole[:57]}..."


# -- keeping the tensor


def _fix(sites: Sites, node: ast.expr) -> tuple[Fix | None, str]:
    if _is_text(node):
        return None, "it is text for people; leave it out of the forward, or write it in some steps only"
    called = _called_once(sites, node)
    if called is not None:
        return called, ""
    if not isinstance(node, ast.Call):
        return None, "what runs next depends on the value"
    func = node.func
    if isinstance(func, ast.Attribute) and func.attr == "repeat_interleave":
        return None, "`output_size=` needs a length that the host knows"
    value = node.args[0] if isinstance(func, ast.Name) and len(node.args) == 1 else None
    if isinstance(func, ast.Attribute) and func.attr == "item":
        value = func.value
    function = sites.tree.function(node)
    hoisted = _hoisted(sites, node)
    if hoisted is not None:
        return hoisted, ""
    if value is None or function is None:
        return None, "what runs next depends on the value"
    if isinstance(func, ast.Name) and func.id == "bool":
        return None, "what runs next depends on the value"
    if isinstance(func, ast.Name) and func.id != "float":
        return None, "a whole number may round, count or decide"
    bounded = _bounded(sites, node)
    whole, bound = bounded or (node, "")
    if not _only_arithmetic(sites, whole, function, _dtype_read(sites, node)):
        return None, "the number serves for more than arithmetic with tensors"
    if has_comment(sites.source, *offsets(sites.source, whole)):
        return None, "a comment stands inside it"
    edits = checked(sites.source, [replace_node(sites.source, whole, f"{_detached(sites, value)}{bound}")])
    return (Fix("Keep the value on the device", "safe", edits), "") if edits else (None, "the text does not allow it")


def _bounded(sites: Sites, node: ast.expr) -> tuple[ast.Call, str] | None:
    """`max(x.item(), 1)` and what bounds a tensor like that."""
    call = sites.tree.parent(node)
    name = dotted(call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or name not in _BOUNDS or len(call.args) != 2 or call.keywords:
        return None
    other = next(arg for arg in call.args if arg is not node)
    number = isinstance(other, ast.Constant) and type(other.value) in (int, float)
    return (call, f".clamp({_BOUNDS[name]}={sites.tree.text(other)})") if number else None


def _dtype_read(sites: Sites, node: ast.expr) -> str:
    """The dtype of the tensor that a number is read from, empty if the run does not tell."""
    op = sites.op(node, "aten::item")
    return op.dtypes[0] if op is not None and op.dtypes else ""


def _hoisted(sites: Sites, node: ast.Call) -> Fix | None:
    """One read in front of the outermost loop that cannot change it."""
    tree = sites.tree
    function = tree.function(node)
    chosen: ast.stmt | None = None
    for loop in tree.loops(node):
        if not _is_invariant(sites, node, loop):
            break
        chosen = tree.statement(loop)
    if chosen is None or function is None or not stands_alone(tree, chosen) or "\n" in tree.text(node):
        return None
    if isinstance(tree.parent(chosen), ast.If) and chosen not in tree.block(chosen):
        return None
    if not isinstance(chosen, (ast.For, ast.While, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)):
        return None
    name = sites.fresh_name(function, node, _name_of_read(node))
    edits = checked(
        sites.source,
        [insert_before(tree, chosen, [f"{name} = {tree.text(node)}"]), replace_node(sites.source, node, name)],
    )
    return Fix("Read the value once before the loop", "safe", edits) if edits else None


def _called_once(sites: Sites, node: ast.expr) -> Fix | None:
    """One call in front of a loop that calls the function around the read, and gives it the same in every round."""
    loop, call = loop_around(sites, node) or (None, None)
    if loop is None or not isinstance(call, ast.Call) or sites.tree.function(call) is sites.tree.function(node):
        return None
    if not is_same(sites, loop, call, READING):
        return None
    try:
        edits = once_before(sites, loop, call, f"{name_of(call)}_once", READING)
    except RefusedError:
        return None
    return Fix("Read the value once before the loop", "safe", edits)


def _name_of_read(node: ast.Call) -> str:
    """`lengths_list` for `lengths.tolist()`, `value` for a single number."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr != "tolist":
        return "value"
    return f"{node.func.value.id}_list" if isinstance(node.func.value, ast.Name) else "values"


def _is_invariant(sites: Sites, node: ast.Call, loop: Looping) -> bool:
    value = node.func.value if isinstance(node.func, ast.Attribute) else node.args[0] if len(node.args) == 1 else None
    if value is None or not is_repeatable(value) or names_read(node) & names_bound(loop):
        return False
    function = sites.tree.function(node)
    places = {p for n in walk(value) if (p := dotted(n)) is not None and p not in {"self", "torch"}}
    if function is None or not places:
        return False
    shared = aliases_of_all(function, places)
    return not any(p is None or any(overlap(p, s) for s in shared) for _, p in changes(sites, loop))


def _detached(sites: Sites, value: ast.expr) -> str:
    """The value without its graph: detached at its root where that is a name, so that no graph is built at all."""
    text = sites.tree.text(value)
    base = value
    while isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
        if base.func.attr == "detach":
            return text
        if is_torch_function(sites.tree.module, base.func) or (dotted(base.func.value) or "").startswith("self"):
            break
        base = base.func.value
    if isinstance(base, (ast.Name, ast.Subscript)) and base is not value and _plain_chain(value):
        inner = sites.tree.text(base)
        return f"{inner}.detach(){text[len(inner) :]}" if text.startswith(inner) else f"{text}.detach()"
    plain = isinstance(value, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    return f"{text}.detach()" if plain else f"({text}).detach()"


def _plain_chain(value: ast.expr) -> bool:
    """Whether no argument on the way holds another tensor, which would bring its own graph."""
    calls = [n for n in walk(value) if isinstance(n, ast.Call)]
    return all(isinstance(a, ast.Constant) for call in calls for a in (*call.args, *(k.value for k in call.keywords)))


def _only_arithmetic(sites: Sites, node: ast.expr, function: Function, dtype: str, depth: int = 0) -> bool:
    """Whether a number of a `dtype` meets a tensor that keeps its own beside it, and only arithmetic on the way."""
    tree = sites.tree
    parent = tree.parent(node)
    if depth > 6:
        return False
    if isinstance(parent, ast.BinOp):
        shapes = sites.operands(parent)
        if shapes is not None and any(shapes):
            # A tensor of no dimensions follows the dtype of the other one as a number does.
            return not isinstance(parent.op, (ast.Pow, ast.Mod, ast.FloorDiv, ast.MatMult))
        if shapes is not None:
            return isinstance(parent.op, _PLAIN) and node is parent.right and _keeps_dtype(sites, parent, dtype)
        return isinstance(parent.op, _PLAIN) and _only_arithmetic(sites, parent, function, dtype, depth + 1)
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
        return _only_arithmetic(sites, parent, function, dtype, depth + 1)
    if isinstance(parent, ast.AugAssign) and parent.value is node:
        cost = sites.cost(parent)
        return cost is not None and any(op.outermost and any(op.shapes[:1]) for op in cost.ops)
    if _fills(sites, parent, node):
        return True
    called = called_function(sites, parent) if isinstance(parent, ast.Call) and node in parent.args else None
    if called is not None and isinstance(parent, ast.Call):
        given = arguments_of(called, parent) or {}
        names = [name for name, argument in given.items() if argument is node and len(bindings(called, name)) == 1]
        return bool(names) and _reads_only_arithmetic(sites, called, names[0], dtype, depth)
    if isinstance(parent, ast.Call) and node in parent.args and isinstance(parent.func, ast.Attribute):
        # `x.div(peak)`: named so that a number and a tensor mean the same.
        same = parent.func.attr in {"add", "sub", "mul", "div"} and len(parent.args) == 1
        op = sites.op(parent, f"aten::{parent.func.attr}")
        return same and parent.func.attr in ELEMENTWISE and op is not None and any(op.shapes[:1])
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        return _name_only_arithmetic(sites, parent, parent.targets[0].id, function, dtype, depth)
    return False


def _fills(sites: Sites, call: ast.AST | None, node: ast.expr) -> bool:
    """`x.masked_fill(mask, value)`, which takes a tensor without dimensions for the number."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.keywords:
        return False
    filling = call.func.attr in {"masked_fill", "masked_fill_"} and call.args[-1:] == [node]
    op = sites.op(call, f"aten::{call.func.attr}")
    return filling and op is not None and any(op.shapes[:1])


def _keeps_dtype(sites: Sites, node: ast.BinOp, dtype: str) -> bool:
    """Whether a tensor without dimensions on the left has a floating dtype that one of `dtype` does not widen."""
    cost = sites.cost(node)
    left = next((op.dtypes[0] for op in cost.ops if op.outermost and op.dtypes), "") if cost is not None else ""
    return "float" in left and bool(dtype) and (dtype == left or "float" not in dtype)


def _name_only_arithmetic(
    sites: Sites, statement: ast.Assign, name: str, function: Function, dtype: str, depth: int
) -> bool:
    made = definition(sites.tree, function, name) is statement
    return made and _reads_only_arithmetic(sites, function, name, dtype, depth)


def _reads_only_arithmetic(sites: Sites, function: Function, name: str, dtype: str, depth: int) -> bool:
    reads = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    nested = any(isinstance(n, ast.Lambda | ast.FunctionDef) and n is not function for n in walk(function))
    changed = any(name in names_bound(s) for s in function.body if isinstance(s, ast.FunctionDef))
    return (
        bool(reads)
        and not nested
        and not changed
        and all(_only_arithmetic(sites, read, function, dtype, depth + 1) for read in reads)
    )
