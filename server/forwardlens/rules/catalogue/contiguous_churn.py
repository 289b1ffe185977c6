"""Copies made only to change the memory layout, for readers that do not care."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import Edit, ExpressionCost, Fix
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of, times
from forwardlens.rules.layout import LayoutMattersError, LayoutReaders, require_no_writes
from forwardlens.rules.operations import call_operands, called_name, torch_function
from forwardlens.source.rewrite import (
    checked,
    edit_between,
    has_comment,
    offsets,
    replace_node,
    replace_statements,
    stands_alone,
)
from forwardlens.source.tree import is_atom, walk

# Their results are not flat in memory: their first dimensions cannot be made one without a copy.
_REORDERING = frozenset("transpose permute movedim moveaxis swapaxes swapdims".split())


class ContiguousChurn(Rule):
    """## What it does
    Finds `.contiguous()` calls that really copied, although every reader of the copy works on any layout: matrix
    products, elementwise operators, reductions, another `transpose`.

    ## Why it costs
    The copy reads and writes the whole tensor and allocates a new one. Operators with strided inputs do the same work
    without it.

    ## When to ignore it
    A `.contiguous()` on a tensor that already is contiguous does nothing, and the copy in front of `view` or
    `reshape` is needed, and so is one that several `Linear` layers read, which would each make their own without it:
    none of them is reported. Some kernels are faster on contiguous inputs: where the fix was tried and is slower, the
    finding goes.

    ## Fix safety
    The fix is offered as safe if all readers are known, none of them needs the layout, the value does not leave the
    function except through a reduction, and neither the copy nor its source is written to. A helper whose result is
    the copy is followed to the places in its file that call it.
    """

    name: ClassVar[str] = "contiguous-churn"
    summary: ClassVar[str] = "A copy for a layout that no reader needs"
    # Copies are small beside the loops they often stand next to, and matter once those are gone.
    threshold_factor: ClassVar[float] = 0.25
    threshold_of_rest: ClassVar[bool] = True
    needs_gain: ClassVar[bool] = True
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "cloned-for-its-layout",
            """\
import torch
from torch import nn


class Swing(nn.Module):
    def forward(self, trace):
        parts = trace.unfold(dimension=1, size=40, step=2)
        parts = torch.clone(parts, memory_format=torch.contiguous_format)  #!
        later = trace.unfold(1, 30, 2).clone(memory_format=torch.contiguous_format)  #!
        return torch.amax(parts, dim=-1) - later.amin(dim=-1)[:, 5:]


def build():
    return Swing(), (torch.randn(8, 400),)
""",
            """\
import torch
from torch import nn


class Swing(nn.Module):
    def forward(self, trace):
        parts = trace.unfold(dimension=1, size=40, step=2)
        later = trace.unfold(1, 30, 2)
        return torch.amax(parts, dim=-1) - later.amin(dim=-1)[:, 5:]


def build():
    return Swing(), (torch.randn(8, 400),)
""",
        ),
        Example(
            "elementwise-chain",
            """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(32))

    def forward(self, x):
        y = x.transpose(1, 2).contiguous()  #!
        y = y * self.gain
        return y.sum(dim=1)


def build():
    return Gate(), (torch.randn(8, 32, 200),)
""",
            """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(32))

    def forward(self, x):
        y = x.transpose(1, 2)
        y = y * self.gain
        return y.sum(dim=1)


def build():
    return Gate(), (torch.randn(8, 32, 200),)
""",
        ),
        Example(
            "split-heads",
            """\
import torch
from torch import nn


class Scores(nn.Module):
    def heads(self, x):
        b, s, d = x.shape
        return x.view(b, s, 4, d // 4).permute(0, 2, 1, 3).contiguous()  #!

    def forward(self, x):
        q, k = self.heads(x), self.heads(x + 1)
        return torch.matmul(q, k.transpose(-1, -2).contiguous())  #!


def build():
    return Scores(), (torch.randn(2, 64, 64),)
""",
            """\
import torch
from torch import nn


class Scores(nn.Module):
    def heads(self, x):
        b, s, d = x.shape
        return x.view(b, s, 4, d // 4).permute(0, 2, 1, 3)

    def forward(self, x):
        q, k = self.heads(x), self.heads(x + 1)
        return torch.matmul(q, k.transpose(-1, -2))


def build():
    return Scores(), (torch.randn(2, 64, 64),)
""",
        ),
        Example(
            "helpers-around-a-sum-laid-out-by-its-first-operand",
            """\
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(16))

    def to_last(self, t):
        return t.permute(0, 2, 3, 1).contiguous()  #!

    def to_first(self, t):
        return t.permute(0, 3, 1, 2).contiguous()  #!

    def forward(self, x):
        y = self.to_last(x)
        y = y * self.gain / y.mean(dim=(1, 2), keepdim=True)
        return torch.add(x, self.to_first(y))


def build():
    return Residual(), (torch.randn(4, 16, 24, 24),)
""",
            """\
import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(16))

    def to_last(self, t):
        return t.permute(0, 2, 3, 1)

    def to_first(self, t):
        return t.permute(0, 3, 1, 2)

    def forward(self, x):
        y = self.to_last(x)
        y = y * self.gain / y.mean(dim=(1, 2), keepdim=True)
        return torch.add(x, self.to_first(y))


def build():
    return Residual(), (torch.randn(4, 16, 24, 24),)
""",
        ),
        Example(
            "several-layers-read-it",
            """\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(64, k) for k in (1, 2, 3, 4))

    def forward(self, x):
        cells = x.flatten(2).transpose(1, 2).contiguous()
        return [head(cells) for head in self.heads]


def build():
    return Heads(), (torch.randn(4, 64, 20, 20),)
""",
        ),
        Example(
            "first-operand-of-a-sum-is-broadcast",
            """\
import torch
from torch import nn


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = nn.Parameter(torch.rand(1, 64, 16))

    def forward(self, x):
        return self.offset + x.transpose(1, 2).contiguous()


def build():
    return Shifted(), (torch.randn(4, 16, 64),)
""",
        ),
        Example(
            "view-needs-it",
            """\
import torch
from torch import nn


class Merge(nn.Module):
    def forward(self, context):
        b, h, n, d = context.shape
        flat = context.transpose(1, 2).contiguous()
        return flat.view(b, n, h * d).relu()


def build():
    return Merge(), (torch.randn(4, 8, 64, 16),)
""",
        ),
        Example(
            "leaves-the-function",
            """\
import torch
from torch import nn


class Swap(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2).contiguous()


def build():
    return Swap(), (torch.randn(4, 64, 64),)
""",
        ),
        Example(
            "written-to-later",
            """\
import torch
from torch import nn


class Shift(nn.Module):
    def forward(self, x):
        y = x.transpose(1, 2).contiguous()
        y[:, 0] = 0.0
        return (x.sum(dim=1), y.sum(dim=1))


def build():
    return Shift(), (torch.randn(4, 64, 64),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node, cost in sites.items():
            copied = _copied(sites, node) if isinstance(node, ast.Call) and cost.op_calls("aten::copy_") else None
            match = _match(sites, node, copied, cost) if isinstance(node, ast.Call) and copied is not None else None
            if match is not None:
                yield match


def _copied(sites: Sites, node: ast.Call) -> ast.expr | None:
    """`x` for `x.contiguous()`, and for a clone that is made for its layout."""
    func, module = node.func, sites.tree.module
    if not isinstance(func, ast.Attribute):
        return None
    if func.attr == "contiguous":
        return None if node.args or node.keywords else func.value
    laid_out = [(k.arg, torch_function(module, k.value)) for k in node.keywords]
    if func.attr != "clone" or laid_out != [("memory_format", "contiguous_format")]:
        return None
    if torch_function(module, func) is None:
        return None if node.args else func.value
    return node.args[0] if len(node.args) == 1 else None


def _match(sites: Sites, node: ast.Call, copied: ast.expr, cost: ExpressionCost) -> Match | None:
    readers = LayoutReaders(sites)
    try:
        readers.follow(node)
        require_no_writes(readers, node)
    except LayoutMattersError:
        return None
    edits = _without_call(sites, node, copied)
    if not readers.readers or edits is None:
        return None
    copies = max(cost.op_calls("aten::clone"), 1)
    if _hidden_copies(sites, readers, copied) > copies:
        return None
    return Match(
        sites.source.span(node),
        f"This copies its tensor {times(copies)} in one forward, {percent(cost.share)} of it, "
        "for readers that work on any memory layout",
        cost.share,
        {"copies": copies},
        (),
        (Fix("Drop the copy", "safe", edits),),
    )


def _hidden_copies(sites: Sites, readers: LayoutReaders, copied: ast.expr) -> int:
    """How often products with a matrix would flatten what is in another order in memory, each by a copy of its own."""
    module = sites.tree.module
    if not isinstance(copied, ast.Call) or called_name(module, copied) not in _REORDERING:
        return 0
    read = {node for node, kind in readers.seen if kind != "reduced"}
    found = 0
    for node in {n for function in readers.functions for n in walk(function)}:
        op, cost = sites.op(node, "aten::linear", "aten::matmul"), sites.cost(node)
        flattens = op is not None and len(op.shapes) > 1 and len(op.shapes[0]) > 2 >= len(op.shapes[1])
        if flattens and cost is not None and id(_first_operand(module, node)) in read:
            found += cost.calls
    return found


def _first_operand(module: ast.Module, node: ast.AST) -> ast.expr | None:
    """`x` for `x @ w`, `x.matmul(w)`, `F.linear(x, w)` and `self.layer(x)`."""
    if isinstance(node, ast.BinOp):
        return node.left
    if not isinstance(node, ast.Call):
        return None
    method = isinstance(node.func, ast.Attribute) and node.func.attr == "matmul"
    operands = call_operands(module, node) if method else node.args
    return operands[0] if operands else None


def _without_call(sites: Sites, node: ast.Call, value: ast.expr) -> tuple[Edit, ...] | None:
    """Remove `.contiguous()`; all of `y = y.contiguous()`, which would be left as `y = y`."""
    source, tree = sites.source, sites.tree
    statement = tree.parent(node)
    if isinstance(statement, ast.Assign) and isinstance(value, ast.Name) and stands_alone(tree, statement):
        names = [t.id for t in statement.targets if isinstance(t, ast.Name)]
        if names == [value.id] and len(tree.block(statement)) > 1 and "#" not in source.line(statement.lineno):
            return checked(source, [replace_statements(tree, [statement], [])])
    if value in node.args:
        text = tree.text(value)
        closed = text if is_atom(value) or isinstance(statement, (ast.Assign, ast.Return)) else f"({text})"
        commented = has_comment(source, *offsets(source, node))
        return None if commented else checked(source, [replace_node(source, node, closed)])
    start, end = offsets(source, value)[1], offsets(source, node)[1]
    # A parenthesis around the value stays: it closes behind the value, in front of the dot.
    dot = source.text.index(".", start, end)
    start = len(source.text[:dot].rstrip())
    if has_comment(source, start, end):
        return None
    return checked(source, [edit_between(source, start, end, "")])
