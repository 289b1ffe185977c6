"""Work in every round of a loop that does not depend on the rounds before it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from forwardlens.model import Edit, ExpressionCost, Fix
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import arguments_of, function_of, in_loop, loop_around, rounds_of
from forwardlens.rules.catalogue.elementwise_loop import ElementwiseLoop
from forwardlens.rules.catalogue.embedding_in_loop import EmbeddingInLoop
from forwardlens.rules.catalogue.masking_in_loop import MaskingInLoop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, depends_on_order, percent, sites_of
from forwardlens.rules.invariants import CREATING, called, is_same, name_of, once_before, parts, unchanged
from forwardlens.rules.operations import is_torch_function
from forwardlens.rules.relation import relation
from forwardlens.rules.repeated import LEAST_ROUNDS, bound_in, head, in_rounds, shown
from forwardlens.rules.rounds import claimed, outermost, works
from forwardlens.rules.vectorise import hoisted, hoisted_results
from forwardlens.source.dataflow import bindings, names_read
from forwardlens.source.tree import Looping, dotted

_PRODUCTS = ("aten::linear", "aten::matmul", "aten::mm", "aten::addmm", "aten::bmm", "aten::einsum")


class InvariantInLoop(Rule):
    """## What it does
    Finds work inside a loop that other rounds do not feed: an input projection computed step by step beside a
    recurrence, or an expression that is the same in every round, such as a property that computes from parameters.

    ## Why it costs
    One product of all steps with the weight reads the weight once and fills the hardware. Step by step it is read in
    every round, for a product of a few rows that is mostly dispatch. What is the same in every round is computed once
    and thrown away all other times.

    ## When to ignore it
    When what is computed draws random numbers, updates statistics or has side effects: that is not reported.

    ## Fix safety
    The fix is offered as safe if nothing that the expression reads changes inside the loop, the loop cannot end
    early, and the run showed which operators it consists of. Projections of all steps are held at once, which takes
    more memory than one step's.
    """

    name: ClassVar[str] = "invariant-in-loop"
    summary: ClassVar[str] = "Work in a loop that could be done once before it"
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {
        "constant-rebuilt": "expression",
        "dtype-cast-churn": "expression",
    }
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "input-projection",
            """\
import torch
from torch import nn


class Drift(nn.Module):
    def __init__(self):
        super().__init__()
        self.drive = nn.Linear(32, 8)
        self.turn = nn.Linear(8, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(0), 8)
        for t in range(x.size(1)):
            state = torch.tanh(self.drive(x[:, t]) + self.turn(state))  #!
        return state


def build():
    return Drift(), (torch.randn(4, 24, 32),)
""",
            """\
import torch
from torch import nn


class Drift(nn.Module):
    def __init__(self):
        super().__init__()
        self.drive = nn.Linear(32, 8)
        self.turn = nn.Linear(8, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(0), 8)
        drive_rows = self.drive(x)
        for t in range(x.size(1)):
            state = torch.tanh(drive_rows[:, t] + self.turn(state))
        return state


def build():
    return Drift(), (torch.randn(4, 24, 32),)
""",
        ),
        Example(
            "over-the-steps-themselves",
            """\
import torch
from torch import nn


class Drift(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 8))
        self.turn = nn.Linear(8, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(0), 8)
        for step in x.unbind(1):
            state = torch.tanh(step @ self.weight + self.turn(state))  #!
        return state


def build():
    return Drift(), (torch.randn(4, 24, 32),)
""",
            """\
import torch
from torch import nn


class Drift(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 8))
        self.turn = nn.Linear(8, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(0), 8)
        weight_rows = x.permute(1, 0, 2) @ self.weight
        for step in weight_rows:
            state = torch.tanh(step + self.turn(state))
        return state


def build():
    return Drift(), (torch.randn(4, 24, 32),)
""",
        ),
        Example(
            "counted-in-its-own-ways",
            """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 32) / 8)
        self.bias = nn.Parameter(torch.zeros(8))
        self.mix = nn.Linear(32, 8)
        self.turn = nn.Linear(8, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(0), 8)
        t = 0
        while t < x.size(1):
            state = torch.tanh(torch.addmm(self.bias, x[:, t], self.weight.t()) + self.turn(state))  #!
            t += 1
        for row in x.unbind(1):
            state = torch.tanh(self.mix(row) * state.sigmoid() + row[:, :8])  #!
        return state


def build():
    return Gate(), (torch.randn(4, 24, 32),)
""",
            """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 32) / 8)
        self.bias = nn.Parameter(torch.zeros(8))
        self.mix = nn.Linear(32, 8)
        self.turn = nn.Linear(8, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(0), 8)
        t = 0
        bias_rows = torch.addmm(self.bias, x.flatten(0, 1), self.weight.t()).unflatten(0, x.shape[:2])
        while t < x.size(1):
            state = torch.tanh(bias_rows[:, t] + self.turn(state))
            t += 1
        mix_rows = self.mix(x)
        for step, row in enumerate(x.unbind(1)):
            state = torch.tanh(mix_rows[:, step] * state.sigmoid() + row[:, :8])
        return state


def build():
    return Gate(), (torch.randn(4, 24, 32),)
""",
        ),
        Example(
            "same-in-every-round",
            """\
import torch
from torch import nn


class Refine(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.skip = nn.Linear(8, 8)

    def forward(self, x):
        y = x
        for _ in range(12):
            y = self.mix(y) + torch.tanh(self.skip(x))  #!
        return y


def build():
    return Refine(), (torch.randn(4, 8),)
""",
            """\
import torch
from torch import nn


class Refine(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.skip = nn.Linear(8, 8)

    def forward(self, x):
        y = x
        skip_once = torch.tanh(self.skip(x))
        for _ in range(12):
            y = self.mix(y) + skip_once
        return y


def build():
    return Refine(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "two-things-at-once",
            """\
import torch
from torch import nn


class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.drive = nn.Linear(32, 8)

    def forward(self, x):
        state = x.new_zeros(x.size(1), 8)
        for step, gain in zip(x, (0.5, 0.6, 0.7, 0.8, 0.9)):
            state = torch.tanh(self.drive(step) + gain * state)  #!
        return state


def build():
    return Steps(), (torch.randn(5, 4, 32),)
""",
        ),
        Example(
            "property-that-computes",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.target = nn.Parameter(torch.randn(8, 48))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    @property
    def support(self):
        links = torch.relu(self.source @ self.target)
        return links.softmax(dim=-1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(self.support @ x)) + x  #!
        return x


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.target = nn.Parameter(torch.randn(8, 48))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    @property
    def support(self):
        links = torch.relu(self.source @ self.target)
        return links.softmax(dim=-1)

    def forward(self, x):
        support_once = self.support
        for layer in self.layers:
            x = torch.tanh(layer(support_once @ x)) + x
        return x


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
        ),
        Example(
            "device-that-stays",
            """\
import torch
from torch import nn


class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(1))
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(8))

    def weights(self, n, device):
        steps = torch.arange(n, device=device)
        return torch.exp(-(steps[:, None] - steps).abs().float() * self.slope)

    def forward(self, x):
        n = x.size(1)
        for layer in self.layers:
            near = self.weights(n, x.device)  #!
            x = x + near @ layer(x)
        return x


def build():
    return Near(), (torch.randn(2, 96, 8),)
""",
            """\
import torch
from torch import nn


class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(1))
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(8))

    def weights(self, n, device):
        steps = torch.arange(n, device=device)
        return torch.exp(-(steps[:, None] - steps).abs().float() * self.slope)

    def forward(self, x):
        n = x.size(1)
        weights_once = self.weights(n, x.device)
        for layer in self.layers:
            near = weights_once
            x = x + near @ layer(x)
        return x


def build():
    return Near(), (torch.randn(2, 96, 8),)
""",
        ),
        Example(
            "in-a-comprehension",
            """\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.skip = nn.Linear(8, 8)
        self.heads = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        return [head(torch.tanh(self.skip(x))) for head in self.heads]  #!


def build():
    return Heads(), (torch.randn(64, 8),)
""",
            """\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.skip = nn.Linear(8, 8)
        self.heads = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        skip_once = torch.tanh(self.skip(x))
        return [head(skip_once) for head in self.heads]


def build():
    return Heads(), (torch.randn(64, 8),)
""",
        ),
        Example(
            "module-that-may-move",
            """\
import torch
from torch import nn


class Near(nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = nn.Parameter(torch.ones(1))
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(8))

    def weights(self, n, device):
        steps = torch.arange(n, device=device)
        return torch.exp(-(steps[:, None] - steps).abs().float() * self.slope)

    def forward(self, x):
        n = x.size(1)
        for layer in self.layers:
            near = self.weights(n, x.device)
            x = near @ layer(x)
        return x


def build():
    return Near(), (torch.randn(2, 96, 8),)
""",
        ),
        Example(
            "method-with-the-same-arguments",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.target = nn.Parameter(torch.randn(8, 48))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    def links(self, sharpness):
        return self.scores().mul(sharpness).softmax(dim=-1)

    def scores(self):
        return self.source @ self.target

    def forward(self, x):
        for layer in self.layers:
            support = self.links(2.0).t()  #!
            x = torch.tanh(layer(torch.matmul(support, x))) + x
        return x


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.target = nn.Parameter(torch.randn(8, 48))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    def links(self, sharpness):
        return self.scores().mul(sharpness).softmax(dim=-1)

    def scores(self):
        return self.source @ self.target

    def forward(self, x):
        links_once = self.links(2.0)
        for layer in self.layers:
            support = links_once.t()
            x = torch.tanh(layer(torch.matmul(support, x))) + x
        return x


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
        ),
        Example(
            "property-whose-weight-changes",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.target = nn.Parameter(torch.randn(8, 48))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    @property
    def support(self):
        links = torch.relu(self.source @ self.target)
        return links.softmax(dim=-1)

    @torch.no_grad()
    def fade(self):
        self.source.mul_(0.9)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(self.support @ x)) + x
            self.fade()
        return x


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
        ),
        Example(
            "property-that-draws",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.target = nn.Parameter(torch.randn(8, 48))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    @property
    def support(self):
        links = self.source @ self.target
        return (links + torch.rand_like(links)).softmax(dim=-1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(self.support @ x)) + x
        return x


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
        ),
        Example(
            "view-of-it-is-changed",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.target = nn.Parameter(torch.randn(8, 48))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    @property
    def support(self):
        links = torch.relu(self.source @ self.target)
        return links.softmax(dim=-1)

    def forward(self, x):
        with torch.no_grad():
            for layer in self.layers:
                support = self.support.t()  #!
                support.mul_(0.5)
                x = torch.tanh(layer(support @ x)) + x
        return x


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
        ),
        Example(
            "value-that-every-round-keeps",
            """\
import torch
from torch import nn


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.source = nn.Parameter(torch.randn(48, 8))
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(8))

    def links(self):
        return (self.source @ self.source.t()).softmax(dim=-1)

    def forward(self, x):
        seen = []
        for layer in self.layers:
            links = self.links()  #!
            seen.append(links)
            x = torch.tanh(layer(links @ x)) + x
        return x, seen


def build():
    return Graph(), (torch.randn(2, 48, 4),)
""",
        ),
        Example(
            "random-draws",
            """\
import torch
from torch import nn


class Walk(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.Linear(8, 8)
        self.drop = nn.Dropout(0.2)

    def forward(self, x):
        y = x
        for _ in range(12):
            y = torch.tanh(self.turn(y)) + self.drop(x) + torch.randn(x.shape)
        return y


def build():
    return Walk(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "weight-changes-in-the-loop",
            """\
import torch
from torch import nn


class Power(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.eye(8))

    def forward(self, x):
        y = x
        weight = self.weight.clone()
        for _ in range(12):
            y = y + torch.tanh(x @ weight)
            weight.mul_(0.9)
        return y


def build():
    return Power(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "a-function-changes-the-weight",
            """\
import torch
from torch import nn


def fade(weight):
    weight.mul_(0.9)


class Power(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("weight", torch.eye(8))

    def forward(self, x):
        y = x
        weight = self.weight.clone()
        for _ in range(12):
            y = y + torch.tanh(x @ weight)
            fade(weight)
        return y


def build():
    return Power(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "layer-of-its-own-per-round",
            """\
import torch
from torch import nn


class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))
        self.drive = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

    def forward(self, x):
        y = x
        for i in range(12):
            y = self.turn[i](y) + self.drive[i](x)
        return y


def build():
    return Deep(), (torch.randn(4, 8),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        candidates = [
            (node, cost, loop)
            for node, cost in sites.items()
            if isinstance(node, ast.expr) and in_rounds(cost) and _computes(sites, node, cost)
            for loop in sites.tree.loops(node)
        ]
        helped = _in_helpers(sites)
        if not candidates and not helped:
            return
        others = (EmbeddingInLoop(), MaskingInLoop(), ElementwiseLoop())
        taken = claimed(context, sites, others)
        done: set[ast.AST] = set()
        for node, cost, loop in sorted(candidates, key=lambda item: len(list(sites.tree.ancestors(item[0])))):
            if not done.isdisjoint((node, *sites.tree.ancestors(node))):
                continue
            match = None
            if not taken.get(loop) and is_same(sites, loop, node):
                match = _same(sites, loop, node)
            elif (
                works(cost)
                and loop not in taken
                and loop is next(sites.tree.loops(node), None)
                and _is_projection(sites, loop, node)
            ):
                match = _projection(sites, loop, node)
            if match is not None:
                done.add(node)
                yield match
        for node, loop in helped:
            if loop not in taken:
                yield _projection(sites, loop, node)


# -- the same in every round


def _computes(sites: Sites, node: ast.expr, cost: ExpressionCost) -> bool:
    """Whether `node` ran operators that compute something, itself or in a function of the file that it calls."""
    if depends_on_order([cost]):
        return False
    if _is_work(cost):
        return True
    function = called(sites, node)
    inside = (sites.cost(n) for n in parts(sites, function)) if function is not None else ()
    return any(c is not None and _is_work(c) for c in inside)


def _is_work(cost: ExpressionCost) -> bool:
    """Whether more was run than what fills a tensor with a number or converts one: rounds want memory of their own."""
    return works(cost) and not {op.name for op in outermost(cost)} <= CREATING | {"aten::to"}


def _share(sites: Sites, node: ast.expr) -> float:
    """The share of the forward spent in `node` and in the functions that it calls."""
    whole = sites.context.profile.forward.wall_ms.median
    called = sum(cost.total_ms - cost.self_ms for _, cost in sites.inside(node))
    return min(1.0, sites.share(node) + (max(0.0, called) / whole if whole else 0.0))


def _same(sites: Sites, loop: Looping, node: ast.expr) -> Match:
    cost = sites.cost(node)
    assert cost is not None
    share = _share(sites, node)
    text = shown(sites.tree.text(node))
    message = (
        f"`{text}` gives the same value in each of {cost.calls} rounds, {percent(share)} of the forward: "
        "the loop changes nothing that it reads"
    )
    fix: Fix | None = None
    try:
        fix = Fix("Compute it once before the loop", "safe", once_before(sites, loop, node, f"{name_of(node)}_once"))
    except RefusedError as refused:
        message = f"{message}; compute it before the loop. No automatic fix: {refused}"
    return Match(
        sites.source.span(node), message, share, {"rounds": cost.calls}, (head(sites, loop),), (fix,) if fix else ()
    )


# -- a projection of each step's input


def _is_projection(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    """A product of a weight that stays the same with something that no earlier round computed."""
    op = sites.op(node, *_PRODUCTS)
    if op is None or relation(sites, loop, node) != "independent" or not unchanged(sites, loop, node):
        return False
    if any(o.name == "aten::embedding" for _, cost in sites.inside(node) for o in cost.ops):
        return False
    bound = bound_in(loop)
    if isinstance(node, ast.BinOp):
        return sum(bool(names_read(side) & bound) for side in (node.left, node.right)) == 1
    if not isinstance(node, ast.Call) or (names_read(node.func) & bound and not isinstance(node.func, ast.Attribute)):
        return False
    if is_torch_function(sites.tree.module, node.func):
        return sum(bool(names_read(a) & bound) for a in node.args) == 1
    if isinstance(node.func, ast.Attribute) and names_read(node.func) & bound:
        # `x[:, t].matmul(w)`
        return not any(names_read(a) & bound for a in node.args) and bool(node.args)
    return len(node.args) == 1 and bool(names_read(node.args[0]) & bound)


def _in_helpers(sites: Sites) -> list[tuple[ast.Call, Looping]]:
    """Products of a layer with what a loop hands to their method and no earlier round computed, and that loop."""
    found: list[tuple[ast.Call, Looping]] = []
    for node, cost in sites.items():
        around = loop_around(sites, node) if isinstance(node, ast.Call) and rounds_of(sites, node) else None
        if around is None or not isinstance(node, ast.Call) or depends_on_order([cost]):
            continue
        loop, call = around
        if call is not node and cost.calls >= LEAST_ROUNDS and _takes_a_step(sites, loop, call, node):
            found.append((node, loop))
    return found


def _takes_a_step(sites: Sites, loop: Looping, call: ast.AST, node: ast.Call) -> bool:
    """Whether `node`, in the method that `call` runs, is a product of a layer with a part of the round's own."""
    function = sites.tree.function(node)
    layer = sites.op(node, *_PRODUCTS) is not None and (dotted(node.func) or "").startswith("self.")
    if not layer or not isinstance(call, ast.Call) or len(node.args) != 1 or node.keywords or function is None:
        return False
    if not (dotted(call.func) or "").startswith("self.") or function_of(sites, call) is not function:
        return False
    name = dotted(node.args[0]) or ""
    step = (arguments_of(function, call) or {}).get(name)
    if step is None or len(bindings(function, name)) != 1 or not names_read(step) & bound_in(loop):
        return False
    return relation(sites, loop, step) == "independent" and unchanged(sites, loop, node)


def _projection(sites: Sites, loop: Looping, node: ast.expr) -> Match:
    cost = sites.cost(node)
    assert cost is not None
    share = sites.share(node)
    text = shown(sites.tree.text(node))
    message = (
        f"`{text}` is computed step by step, {cost.calls} times in one forward, {percent(share)} of it: "
        "no step of it needs an earlier one, so one product could take all steps"
    )
    fix: Fix | None = None
    try:
        fix = Fix("Compute all steps before the loop", "safe", _of_all_steps(sites, loop, node))
    except RefusedError as refused:
        message = f"{message}; compute it for all steps before the loop. No automatic fix: {refused}"
    return Match(
        sites.source.span(node), message, share, {"rounds": cost.calls}, (head(sites, loop),), (fix,) if fix else ()
    )


def _of_all_steps(sites: Sites, loop: Looping, node: ast.expr) -> tuple[Edit, ...]:
    """`node` in front of the loop, with all of the method that computes it where the loop calls one."""
    call, function = in_loop(sites, loop, node), sites.tree.function(node)
    if call is node:
        return hoisted(sites, node, f"{name_of(node)}_rows")
    if not isinstance(call, ast.Call) or function is None:
        raise RefusedError("the loop is in another function")
    if isinstance(function.body[-1], ast.Return) and isinstance(function.body[-1].value, ast.Tuple):
        return hoisted_results(sites, call, function)
    return hoisted(sites, call, f"{function.name.strip('_')}_rows")
