"""Work for a result that nobody reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from forwardlens.model import Fix
from forwardlens.rules.constants import attribute_value
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.operations import is_torch_function
from forwardlens.source.rewrite import (
    change_text,
    checked,
    edit_between,
    has_comment,
    offsets,
    replace_node,
    with_keyword,
)
from forwardlens.source.tree import dotted, keyword_name, walk

_REDUCTIONS = {"max": "amax", "min": "amin"}


class UnusedResult(Rule):
    """## What it does
    Finds `x.max(dim)` and `x.min(dim)` whose indices nobody reads, and `nn.MultiheadAttention` whose averaged weights
    nobody reads.

    ## Why it costs
    Searching for the place of an extreme value as well is slower than finding the value alone, and writes another
    tensor. Attention that has to return its weights cannot take the fused path.

    ## When to ignore it
    When the forward is trained and equal extreme values occur, as after a ReLU: `max` gives the whole gradient to one
    of them, `amax` divides it among all.

    ## Fix safety
    `amax` and `amin` are offered as safe where the run built no graph for autograd, else as unsafe for the reason
    above. `need_weights=False` is safe unless dropout was active, which then draws other random numbers.
    """

    name: ClassVar[str] = "unused-result"
    summary: ClassVar[str] = "A result that is computed and never read"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "indices-of-max",
            """\
import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x):
        top = x.max(dim=1)[0]  #!
        low, _ = torch.min(x, 1)  #!
        return top - low


def build():
    return Pool(), (torch.randn(64, 64, 16),)
""",
            """\
import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x):
        top = x.amax(dim=1)
        low = torch.amin(x, 1)
        return top - low


def build():
    return Pool(), (torch.randn(64, 64, 16),)
""",
        ),
        Example(
            "attention-weights",
            """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, bias=False, batch_first=True)

    def forward(self, x):
        y, _ = self.attention(x, x, x)  #!
        return y


def build():
    return Block(), (torch.randn(1, 16, 32),)
""",
            """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(32, 4, bias=False, batch_first=True)

    def forward(self, x):
        y, _ = self.attention(x, x, x, need_weights=False)
        return y


def build():
    return Block(), (torch.randn(1, 16, 32),)
""",
        ),
        Example(
            "trained-with-ties",
            """\
import torch
from torch import nn


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(16, 16)

    def forward(self, x):
        return self.lin(x).relu().max(dim=1).values  #!


def build():
    return Pool(), (torch.randn(8, 64, 16),)
""",
        ),
        Example(
            "both-are-read",
            """\
import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, x):
        top, place = x.max(dim=1)
        return top, place


def build():
    return Pool(), (torch.randn(64, 64, 16),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node in walk(sites.tree.module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                first = _only_first(sites, node)
                match = None if first is None else _extreme(sites, node, first) or _attention(sites, node)
                if match is not None:
                    yield match


def _only_first(sites: Sites, call: ast.Call) -> ast.AST | None:
    """What takes the first of a call's two results and leaves the other: `f(x)[0]`, `.values`, `a, _ = f(x)`."""
    parent = sites.tree.parent(call)
    if isinstance(parent, ast.Subscript) and parent.value is call:
        return parent if isinstance(parent.slice, ast.Constant) and parent.slice.value == 0 else None
    if isinstance(parent, ast.Attribute) and parent.attr == "values":
        return parent
    if not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return None
    target = parent.targets[0]
    if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(target.elts[1], ast.Name):
        return None
    function, unused = sites.tree.function(call), target.elts[1].id
    read = any(
        isinstance(n, ast.Name) and n.id == unused and isinstance(n.ctx, ast.Load)
        for n in walk(function if function is not None else sites.tree.module)
    )
    return None if read else target


def _extreme(sites: Sites, call: ast.Call, first: ast.AST) -> Match | None:
    func = call.func
    assert isinstance(func, ast.Attribute)
    op = sites.op(call, f"aten::{func.attr}")
    function = is_torch_function(sites.tree.module, func)
    given = len(call.args) + len(call.keywords) - (1 if function else 0)
    if func.attr not in _REDUCTIONS or op is None or given < 1 or not op.shapes or len(op.shapes[0]) < 1:
        return None
    if any(keyword_name(k) not in {"dim", "keepdim"} for k in call.keywords) or (len(op.shapes) > 1 and op.shapes[1]):
        return None
    source = sites.source
    name = _REDUCTIONS[func.attr]
    end = offsets(source, func)[1]
    edits = [edit_between(source, end - len(func.attr), end, name)]
    if isinstance(first, (ast.Subscript, ast.Attribute)):
        edits.append(edit_between(source, offsets(source, call)[1], offsets(source, first)[1], ""))
    elif isinstance(first, ast.Tuple):
        edits.append(replace_node(source, first, sites.tree.text(first.elts[0])))
    statement = sites.tree.statement(call)
    found = None if has_comment(source, *offsets(source, statement)) else checked(source, edits)
    share = sites.share(call) - sum(sites.share(n) for n in [func.value] if not function)
    grad = sites.context.profile.grad
    graph = grad.outputs_require_grad or grad.backward_ran
    reason = "where several elements are the extreme one, the gradient is divided among them" if graph else None
    title = f"Use {name}"
    return Match(
        source.span(call),
        f"`{func.attr}` also finds the index of each value, which nobody reads, {percent(share)} of the forward: "
        f"`{name}` finds the values alone",
        share,
        {"calls": sum(o.calls for o in [op])},
        (),
        (Fix(title, "unsafe" if reason else "safe", found, reason),) if found else (),
    )


def _attention(sites: Sites, call: ast.Call) -> Match | None:
    name = dotted(call.func) or ""
    leaf = name.split(".")[-1]
    value = attribute_value(sites.tree, call, leaf) if name == f"self.{leaf}" else None
    cost = sites.cost(call)
    if not isinstance(value, ast.Call) or (dotted(value.func) or "").split(".")[-1] != "MultiheadAttention":
        return None
    if cost is None or not cost.op_calls("aten::softmax", "aten::_softmax"):
        return None
    if any(k.arg in {"need_weights", "average_attn_weights", None} for k in call.keywords) or len(call.args) > 4:
        return None
    text = change_text(
        sites.tree.text(call), lambda c: with_keyword(c, "need_weights", "False") if isinstance(c, cst.Call) else c
    )
    edits = checked(sites.source, [replace_node(sites.source, call, text)])
    random = any(op.name in {"aten::native_dropout", "aten::bernoulli_"} for op in cost.ops)
    reason = "the dropout draws other random numbers than before" if random else None
    return Match(
        sites.source.span(call),
        f"`{name}` averages its attention weights for a second result that nobody reads, and cannot take the fused "
        f"path for it, {percent(cost.share)} of the forward",
        cost.share,
        {"calls": cost.calls},
        (),
        (Fix("Ask for no weights", "unsafe" if reason else "safe", edits, reason),) if edits else (),
    )
