"""Work in every round of a loop that does not depend on the rounds before it."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import Edit, ExpressionCost, Fix
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import (
    arguments_of,
    function_of,
    in_loop,
    loop_around,
    own_function,
    own_property,
    rounds_of,
)
from forwardlens.rules.catalogue.elementwise_loop import ElementwiseLoop
from forwardlens.rules.catalogue.embedding_in_loop import EmbeddingInLoop
from forwardlens.rules.catalogue.masking_in_loop import MaskingInLoop
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes, may_train
from forwardlens.rules.evidence import Sites, depends_on_order, index_items, percent, sites_of
from forwardlens.rules.loops import leaves_early, loop_of, skips_rounds, surely_runs
from forwardlens.rules.operations import (
    ELEMENTWISE,
    FORWARDS,
    FRESH_OPERATORS,
    MAY_BE_SAME,
    REDUCTIONS,
    is_torch_function,
)
from forwardlens.rules.relation import changes_by_rounds, relation
from forwardlens.rules.repeated import LEAST_ROUNDS, bound_in, head, in_rounds, nested_functions, shown
from forwardlens.rules.rounds import claimed, works
from forwardlens.rules.vectorise import hoisted, hoisted_results
from forwardlens.source.dataflow import (
    METADATA,
    aliases,
    aliases_of_all,
    bindings,
    is_inplace,
    names_bound,
    names_read,
    overlap,
    root,
)
from forwardlens.source.rewrite import checked, insert_before, replace_node, stands_alone
from forwardlens.source.tree import Function, Looping, Tree, dotted, integer, walk

_PRODUCTS = ("aten::linear", "aten::matmul", "aten::mm", "aten::addmm", "aten::bmm", "aten::einsum")
# Operators whose result is decided by their arguments, that make memory of their own, and change nothing.
_PURE = frozenset(
    f"aten::{name}"
    for name in """linear matmul mm addmm bmm softmax log_softmax layer_norm relu gelu silu tanh sigmoid exp log sqrt
    rsqrt pow mul add sub div rsub neg abs square sin cos where cat stack sum mean amax amin norm linalg_vector_norm
    cumsum softplus elu leaky_relu clamp tril triu outer einsum conv1d conv2d embedding group_norm reciprocal eq ne gt
    ge lt le masked_fill maximum minimum index_select gather log1p expm1 erf""".split()
)
# Functions and methods whose result shares no memory with what they read.
_MAKING = ((ELEMENTWISE | REDUCTIONS) - MAY_BE_SAME) | {"item", "tolist"}
# What does more than to compute a value, or does so later.
_DOING_MORE = (
    *(ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.Global, ast.Nonlocal),
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Raise, ast.Assert, ast.Try, ast.With),
)
_CONDITIONAL = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.Match, ast.comprehension)
# What raises on an empty tensor.
_NEED_ELEMENTS = frozenset({"amax", "amin", "argmax", "argmin", "item", "max", "median", "min"})


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
        done: list[ast.AST] = []
        for node, cost, loop in sorted(candidates, key=lambda item: len(list(sites.tree.ancestors(item[0])))):
            if any(node is inside for outer in done for inside in walk(outer)):
                continue
            match = None
            if not taken.get(loop) and _is_same(sites, loop, node):
                match = _same(sites, loop, node)
            elif (
                works(cost)
                and loop not in taken
                and loop is next(sites.tree.loops(node), None)
                and _is_projection(sites, loop, node)
            ):
                match = _projection(sites, loop, node)
            if match is not None:
                done.append(node)
                yield match
        for node, loop in helped:
            if loop not in taken:
                yield _projection(sites, loop, node)


# -- the same in every round


def _computes(sites: Sites, node: ast.expr, cost: ExpressionCost) -> bool:
    """Whether `node` ran operators that compute something, itself or in a function of the file that it calls."""
    if depends_on_order([cost]):
        return False
    called = _called(sites, node)
    inside = (sites.cost(n) for n in _all(sites, called)) if called is not None else ()
    return works(cost) or any(c is not None and works(c) for c in inside)


def _is_same(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    """Whether an expression reads nothing that the loop gives another value to or changes, and does nothing else."""
    function = sites.tree.function(node)
    if function is None or names_read(node) & bound_in(loop) or not isinstance(loop, (ast.For, ast.While)):
        return False
    # What a function needs may not be there in the rounds that do not call it.
    if any(_called(sites, n) is not None for n in walk(node)) and not _in_every_round(sites.tree, loop, node):
        return False
    return _is_pure(sites, node) and _unchanged(sites, loop, node)


def _called(sites: Sites, node: ast.AST) -> Function | None:
    """The function of this file that a call runs, or that reading a property does."""
    if isinstance(node, ast.Attribute):
        return own_property(sites, node)
    return (own_function(sites, node) or function_of(sites, node)) if isinstance(node, ast.Call) else None


def _in_every_round(tree: Tree, loop: Looping, node: ast.expr) -> bool:
    inside = itertools.takewhile(lambda above: above is not loop, tree.ancestors(node))
    return not leaves_early(loop) and not skips_rounds(loop) and not any(isinstance(n, _CONDITIONAL) for n in inside)


def _is_pure(sites: Sites, node: ast.AST, seen: frozenset[Function] = frozenset()) -> bool:
    """Whether `node` computes a value from what it reads and does nothing else, with the functions that it calls."""
    costs = [cost for _, cost in sites.inside(node)]
    if any(op.outermost and op.name not in _PURE and not _looks(op.name) for cost in costs for op in cost.ops):
        return False
    if depends_on_order(costs) or any(isinstance(n, _DOING_MORE) for n in walk(node)):
        return False
    for inner in walk(node):
        called = _called(sites, inner)
        if called is not None:
            if called in seen or not _is_pure_function(sites, called, seen | {called}):
                return False
        elif isinstance(inner, ast.Call):
            # A call that ran no operator here may be anything.
            inplace = isinstance(inner.func, ast.Attribute) and is_inplace(inner.func.attr)
            if inplace or not (sites.outermost(inner) or _is_metadata(inner)):
                return False
    return True


def _is_pure_function(sites: Sites, function: Function, seen: frozenset[Function]) -> bool:
    plain = isinstance(function, ast.FunctionDef) and all(
        dotted(d) in {"property", "staticmethod"} for d in function.decorator_list
    )
    return plain and not changes(sites, function) and all(_is_pure(sites, s, seen) for s in function.body)


def _looks(name: str) -> bool:
    return name.removeprefix("aten::") in {
        "select",
        "slice",
        "unsqueeze",
        "squeeze",
        "transpose",
        "permute",
        "t",
        "view",
    }


def _is_metadata(call: ast.Call) -> bool:
    name = dotted(call.func) or ""
    plain = name in {"len", "int", "float", "range"} or name.startswith("math.")
    return plain or (isinstance(call.func, ast.Attribute) and call.func.attr in {"size", "dim", "numel"})


def _unchanged(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    function = sites.tree.function(node)
    assert function is not None
    places = {*_places(sites, node)}
    if any(isinstance(n, ast.Global) and places & {*n.names} for n in walk(sites.tree.module)):
        return False
    shared = aliases_of_all(function, places - {"self"}) - {"self"}
    for _, place in changes_by_rounds(sites, loop):
        if place is None or any(overlap(place, s) for s in shared):
            return False
    return not may_train(sites, loop)


def _places(sites: Sites, node: ast.AST, seen: frozenset[Function] = frozenset()) -> Iterator[str]:
    """The places that `node` reads, and those that the functions that it calls read of what they are not given."""
    for inner in walk(node):
        place = dotted(inner) if isinstance(inner, (ast.Name, ast.Attribute)) else None
        if place is not None:
            yield place
        function = _called(sites, inner)
        if function is None or function in seen:
            continue
        own = {n.arg for n in walk(function.args) if isinstance(n, ast.arg)} | names_bound(function)
        for place in (p for statement in function.body for p in _places(sites, statement, seen | {function})):
            name, _, rest = place.partition(".")
            if name == "self" and rest and isinstance(inner, ast.Call) and function.name in FORWARDS:
                yield f"{dotted(inner.func)}.{rest}"
            elif (name == "self" and rest) or name not in own:
                yield place


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
        fix = Fix("Compute it once before the loop", "safe", _before(sites, loop, node))
    except RefusedError as refused:
        message = f"{message}; compute it before the loop. No automatic fix: {refused}"
    return Match(
        sites.source.span(node), message, share, {"rounds": cost.calls}, (head(sites, loop),), (fix,) if fix else ()
    )


def _has_rounds(sites: Sites, loop: Looping) -> bool:
    """Whether a loop has rounds whatever the forward is given: so many as the source says, or one for each layer."""
    counted = loop_of(sites, loop) if isinstance(loop, ast.For) else None
    layers = isinstance(loop, ast.For) and any((dotted(n) or "").startswith("self.") for n in walk(loop.iter))
    return layers or (counted is not None and surely_runs(counted))


def _picks_one(sites: Sites, node: ast.AST) -> bool:
    """`x[:, 0]` and `x.select(1, 0)` of what the forward is given, which may have no such element."""
    if isinstance(node, ast.Subscript):
        base, numbered = node.value, any(integer(item) is not None for item in index_items(node))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "select":
        base, numbered = node.func.value, True
    else:
        return False
    picked = numbered and sites.inner_op(node, "aten::select") is not None
    return picked and not (root(base) or "").startswith("self.")


def _before(sites: Sites, loop: Looping, node: ast.expr) -> tuple[Edit, ...]:
    tree = sites.tree
    function = tree.function(node)
    outer = loop
    for around in tree.loops(loop):
        if not isinstance(around, (ast.For, ast.While)) or not _is_same(sites, around, node):
            break
        outer = around
    if function is None or not isinstance(outer, (ast.For, ast.While)) or not stands_alone(tree, outer):
        raise RefusedError("the loop shares a line with other code")
    if any(id(node) == id(n) for f in nested_functions(function) for n in walk(f)):
        raise RefusedError("it stands in a function inside the function")
    picking = not _has_rounds(sites, outer) and any(_picks_one(sites, n) for n in _all(sites, node))
    if picking or any(isinstance(n, ast.Attribute) and n.attr in _NEED_ELEMENTS for n in _all(sites, node)):
        raise RefusedError("it fails on a tensor without elements, which a loop without rounds never reads")
    _require_only_read(sites, node)
    name = sites.fresh_name(function, node, f"{_leaf(node)}_once")
    edits = checked(
        sites.source,
        [insert_before(tree, outer, [f"{name} = {tree.text(node)}"]), replace_node(sites.source, node, name)],
    )
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def _all(sites: Sites, node: ast.AST) -> Iterator[ast.AST]:
    """What is inside `node`, itself included, and inside the functions that it calls."""
    parts = [node]
    for part in parts:
        for inner in walk(part):
            yield inner
            function = _called(sites, inner)
            if function is not None and function not in parts:
                parts.append(function)


def _require_only_read(sites: Sites, node: ast.expr) -> None:
    """Every round had a value of its own. One for all may be read, but not be changed or handed on."""
    function = sites.tree.function(node)
    todo: list[ast.expr] = [node]
    for read in todo:
        further = _handed_on(sites, read)
        if further is None or function is None:
            raise RefusedError("a round may change its value")
        for target in (n for n in further if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)):
            shared = aliases(function, target.id)
            if any(p is None or any(overlap(p, s) for s in shared) for _, p in changes(sites, function)):
                raise RefusedError("a round may change its value")
            further = [n for n in walk(function) if isinstance(n, ast.Name) and n.id == target.id]
        todo += [n for n in further if n not in todo and isinstance(getattr(n, "ctx", ast.Load()), ast.Load)]


def _handed_on(sites: Sites, node: ast.expr) -> list[ast.expr] | None:
    """What else has the value of `node`, or a view of it, by how it is read; None if that is unclear."""
    parent = sites.tree.parent(node)
    if isinstance(parent, (ast.BinOp, ast.Compare, ast.Return)):
        return []
    if isinstance(parent, ast.UnaryOp):
        return [parent] if isinstance(parent.op, ast.UAdd) else []
    if isinstance(parent, ast.AugAssign) and parent.value is node:
        return []
    if isinstance(parent, ast.Attribute) and parent.attr in METADATA:
        return []
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
        return [parent]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        return parent.targets
    method = sites.tree.parent(parent) if isinstance(parent, ast.Attribute) else None
    call = method if isinstance(method, ast.Call) and method.func is parent else parent
    if not isinstance(call, ast.Call) or not sites.outermost(call):
        return None
    # What is not known to make memory of its own may hand back what it is given, or a view of it.
    named = isinstance(call.func, ast.Attribute) and call.func.attr in _MAKING
    return [] if named or sites.outermost(call) <= _PURE | FRESH_OPERATORS else [call]


def _leaf(node: ast.expr) -> str:
    """A name for what an expression computes: that of the layer or weight in it."""
    for inner in walk(node):
        place = dotted(inner) if isinstance(inner, ast.Attribute) else None
        if place is not None and place.startswith("self."):
            return place.split(".")[-1].strip("_") or "value"
    called = dotted(node.func) if isinstance(node, ast.Call) else None
    return (called or "value").split(".")[-1].strip("_") or "value"


# -- a projection of each step's input


def _is_projection(sites: Sites, loop: Looping, node: ast.expr) -> bool:
    """A product of a weight that stays the same with something that no earlier round computed."""
    op = sites.op(node, *_PRODUCTS)
    if op is None or relation(sites, loop, node) != "independent" or not _unchanged(sites, loop, node):
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
    return relation(sites, loop, step) == "independent" and _unchanged(sites, loop, node)


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
        return hoisted(sites, node, f"{_leaf(node)}_rows")
    if not isinstance(call, ast.Call) or function is None:
        raise RefusedError("the loop is in another function")
    if isinstance(function.body[-1], ast.Return) and isinstance(function.body[-1].value, ast.Tuple):
        return hoisted_results(sites, call, function)
    return hoisted(sites, call, f"{function.name.strip('_')}_rows")
