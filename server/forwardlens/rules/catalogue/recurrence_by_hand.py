"""A recurrent cell called step by step where PyTorch has the whole recurrence."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import ExpressionCost
from forwardlens.rules.callers import only_call
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.relation import relation
from forwardlens.rules.repeated import body, bound_in, head, in_rounds, shown
from forwardlens.rules.rounds import share_of
from forwardlens.source.dataflow import names_bound, names_read
from forwardlens.source.tree import Looping, dotted, range_arguments, walk

_CELLS = {
    "aten::lstm_cell": "nn.LSTM",
    "aten::gru_cell": "nn.GRU",
    "aten::rnn_tanh_cell": "nn.RNN",
    "aten::rnn_relu_cell": "nn.RNN",
}
# What these give a step as its input comes from the step before: no fused recurrence can take that.
_CHOOSING = frozenset({"argmax", "multinomial", "sample", "topk", "gumbel_softmax"})


class RecurrenceByHand(Rule):
    """## What it does
    Finds `h = self.cell(x[:, t], h)` in a loop over steps, with `nn.LSTMCell`, `nn.GRUCell` or `nn.RNNCell`.

    ## Why it costs
    Each step pays Python, an indexing operator and the cell's dispatch, and its input projection reads the whole
    weight for one step. `nn.LSTM`, `nn.GRU` and `nn.RNN` project all steps with one product, run the recurrence
    inside one operator, and use fused kernels on a GPU.

    ## When to ignore it
    When a step's input is made from the last step's output, as in decoding: that is not reported. When something
    happens to the state between steps that the fused layers cannot do.

    ## Fix safety
    There is no automatic fix: the layer's parameters have other names than the cell's (`weight_ih_l0` for
    `weight_ih`), so checkpoints need a conversion. For recurrences of your own, `torch.compile` or a scan helps.
    """

    name: ClassVar[str] = "recurrence-by-hand"
    summary: ClassVar[str] = "A recurrent cell called step by step"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "gru-cell",
            """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(0), 8)
        for t in range(x.size(1)):
            state = self.cell(x[:, t], state)  #!
        return state


def build():
    return Reader(), (torch.randn(4, 24, 8),)
""",
        ),
        Example(
            "lstm-cell-over-the-steps",
            """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(8, 8)

    def forward(self, x):
        h = c = x.new_zeros(x.size(1), 8)
        seen = []
        for step in x:
            h, c = self.cell(step, (h, c))  #!
            seen.append(h)
        return torch.stack(seen)


def build():
    return Reader(), (torch.randn(24, 4, 8),)
""",
        ),
        Example(
            "two-layers",
            """\
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(nn.RNNCell(8, 8) for _ in range(2))

    def forward(self, x):
        states = [x.new_zeros(x.size(0), 8) for _ in self.cells]
        for t in range(x.size(1)):
            value = x[:, t]
            for i, cell in enumerate(self.cells):
                value = states[i] = cell(value, states[i])  #!
        return value


def build():
    return Deep(), (torch.randn(4, 24, 8),)
""",
        ),
        Example(
            "layers-in-a-helper",
            """\
import torch
from torch import nn


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(map(nn.LSTMCell, (8, 8), (8, 8)))

    def step(self, value, states):
        fresh = []
        for cell, state in zip(self.cells, states):
            state = cell(value, state)  #!
            fresh.append(state)
            value = state[0]
        return value, fresh

    def forward(self, x):
        zero = x.new_zeros(x.size(1), 8)
        states, seen = [(zero, zero) for _ in self.cells], []
        for frame in x:
            top, states = self.step(frame, states)
            seen.append(top)
        return torch.stack(seen)


def build():
    return Stacked(), (torch.randn(24, 4, 8),)
""",
        ),
        Example(
            "helper-that-is-fed-its-own-output",
            """\
import torch
from torch import nn


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(map(nn.LSTMCell, (8, 8), (8, 8)))

    def step(self, value, states):
        fresh = []
        for cell, state in zip(self.cells, states):
            state = cell(value, state)
            fresh.append(state)
            value = state[0]
        return value, fresh

    def forward(self, x):
        zero, top = x.new_zeros(x.size(1), 8), x[0]
        states, seen = [(zero, zero) for _ in self.cells], []
        for _ in range(x.size(0)):
            top, states = self.step(top, states)
            seen.append(top)
        return torch.stack(seen)


def build():
    return Stacked(), (torch.randn(24, 4, 8),)
""",
        ),
        Example(
            "helper-without-a-state-between-its-calls",
            """\
import torch
from torch import nn


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(map(nn.LSTMCell, (8, 8), (8, 8)))

    def step(self, value, states):
        fresh = []
        for cell, state in zip(self.cells, states):
            state = cell(value, state)
            fresh.append(state)
            value = state[0]
        return value, fresh

    def forward(self, x):
        zero = x.new_zeros(x.size(1), 8)
        seen = []
        for frame in x:
            top, _ = self.step(frame, [(zero, zero), (zero, zero)])
            seen.append(top)
        return torch.stack(seen)


def build():
    return Stacked(), (torch.randn(24, 4, 8),)
""",
        ),
        Example(
            "decoding",
            """\
import torch
from torch import nn


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(8, 8)
        self.back = nn.Linear(8, 8)

    def forward(self, x):
        state = torch.zeros_like(x)
        for _ in range(24):
            state = self.cell(x, state)
            x = self.back(state)
        return x


def build():
    return Writer(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "cells-in-a-row",
            """\
import torch
from torch import nn


class Row(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.ModuleList(nn.GRUCell(8, 8) for _ in range(8))

    def forward(self, x):
        state = x
        for cell in self.cells:
            state = cell(x, state)
        return state


def build():
    return Row(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "whole-recurrence",
            """\
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.GRU(8, 8, batch_first=True)

    def forward(self, x):
        return self.layer(x)[0]


def build():
    return Reader(), (torch.randn(4, 24, 8),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        done: set[ast.AST] = set()
        for node, cost in sites.items():
            cell = next((op.name for op in cost.ops if op.name in _CELLS), None)
            if cell is None or not isinstance(node, ast.Call) or not node.args:
                continue
            loop = (_steps(sites, node) if in_rounds(cost) else None) or _steps_of_helper(sites, node)
            if loop is not None and loop not in done:
                # Several layers in one loop over the steps are one recurrence.
                done.add(loop)
                yield _match(sites, node, cost, loop, _CELLS[cell])


def _steps(sites: Sites, call: ast.Call) -> Looping | None:
    """The loop over the steps around a cell; None if the steps' inputs are not there before it starts."""
    loops = list(sites.tree.loops(call))
    own = next((loop for loop in loops if not names_read(call.func) & _variables(loop)), None)
    if own is None or isinstance(own, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
        return None
    methods = {n.attr for part in body(own) for n in walk(part) if isinstance(n, ast.Attribute)}
    if methods & _CHOOSING:
        return None
    if own is loops[0]:
        # Without an input of its own a step may still run over a sequence: `cell(h)` does not.
        return own if names_read(call.args[0]) & bound_in(own) and _given(sites, own, call.args[0]) else None
    return own if any(_given(sites, own, n) for n in _indexed(own)) else None


def _steps_of_helper(sites: Sites, call: ast.Call) -> Looping | None:
    """The loop over the steps around the only call of the function that a cell stands in, as `_steps`.

    Each round gives the function a step that is there before the loop starts, and the state of the round before.
    """
    tree, function = sites.tree, sites.tree.function(call)
    outer = only_call(sites, function) if function is not None else None
    if function is None or outer is None or not in_rounds(sites.cost(outer)):
        return None
    loops = list(tree.loops(call))
    if any(not names_read(call.func) & _variables(loop) for loop in loops):
        # One of its own loops goes over the steps.
        return None
    own = next(tree.loops(outer), None)
    methods = {n.attr for part in (*function.body, own) if part for n in walk(part) if isinstance(n, ast.Attribute)}
    if not isinstance(own, (ast.For, ast.While)) or methods & _CHOOSING:
        return None
    given = [*outer.args, *(keyword.value for keyword in outer.keywords)]
    counter = _variables(own) if isinstance(own, ast.For) and range_arguments(own.iter) is not None else set[str]()
    steps = [a for a in given if names_read(a) & bound_in(own) and dotted(a) not in counter and _given(sites, own, a)]
    return own if steps and any(relation(sites, own, a) == "carried" for a in given) else None


def _variables(loop: Looping) -> set[str]:
    return set(names_bound(loop.target)) if isinstance(loop, (ast.For, ast.AsyncFor)) else set()


def _given(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    return relation(sites, loop, node) == "independent"


def _indexed(loop: Looping) -> Iterator[ast.expr]:
    """The slices that a round takes by the loop's own variable."""
    variables = _variables(loop)
    for node in (n for part in body(loop) for n in walk(part)):
        if not isinstance(node, (ast.Subscript, ast.Name)) or not isinstance(node.ctx, ast.Load):
            continue
        if names_read(node) & variables:
            yield node


def _match(sites: Sites, call: ast.Call, cost: ExpressionCost, loop: Looping, layer: str) -> Match:
    share = share_of(sites, loop)
    steps = cost.calls_per_entry if loop in sites.tree.loops(call) else cost.calls
    return Match(
        sites.source.span(call),
        f"`{shown(sites.tree.text(call.func))}` runs {steps} times in a loop that takes {percent(share)} of the "
        f"forward: each step pays its dispatch and its own input projection; `{layer}` takes the whole sequence in "
        "one call, with the same weights under other names",
        share,
        {"steps": steps, "calls": cost.calls},
        (head(sites, loop),),
    )
