"""A forward that only predicts but pays for autograd."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import Fix, Profile
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.escape import evaluates, keeps_state, tensors_escape, trains
from forwardlens.rules.evidence import Sites, operators_of, outermost_function, percent, sites_of
from forwardlens.rules.operations import torch_name
from forwardlens.source.dataflow import names_read
from forwardlens.source.rewrite import checked, insert_decorator, replace_node
from forwardlens.source.tree import Function, Tree, dotted, tree_of, walk

# What autograd costs is a little per operator: with fewer than this there is nothing to gain.
LEAST_OPERATORS = 8
# A guard around less of the forward than this cannot gain enough to be worth a change.
LEAST_GUARDED = 0.10

_GUARDS = frozenset({"no_grad", "inference_mode", "set_grad_enabled", "enable_grad"})


class GradModeInInference(Rule):
    """## What it does
    Finds forwards whose results never meet autograd, but which record a graph for it, or which run under `no_grad`
    where `inference_mode` would do.

    ## Why it costs
    For every operator autograd allocates a node and keeps its inputs alive until the result is gone. `no_grad` saves
    that, but still counts versions and tracks views; `inference_mode` drops those as well. The gain is a share of
    every operator's dispatch, so it is large for forwards of many small operators and nothing for a few big ones.

    ## When to ignore it
    When the outputs are used in training after all. A tensor made under `inference_mode` raises an error as soon as
    autograd has to save it.

    ## Fix safety
    The fix is offered as safe if the results leave as Python numbers, or if the file puts its model into evaluation
    mode and has no training code. A forward under `inference_mode` cannot be trained, so everywhere else the fix is
    offered as unsafe. Code that keeps tensors on an object gets no safe fix: they would be poisoned for training.
    """

    name: ClassVar[str] = "grad-mode-in-inference"
    summary: ClassVar[str] = "Autograd bookkeeping in a forward that only predicts"
    # What autograd adds is spread over all operators; only running the fix tells how much it is.
    threshold_factor: ClassVar[float] = 0.0
    drops_graph: ClassVar[bool] = True
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "evaluated-model",
            """\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):  #!
        for layer in self.layers:
            x = layer(x).relu()
        return x


def build():
    return Encoder().eval(), (torch.randn(4, 8),)
""",
            """\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    @torch.inference_mode()
    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def build():
    return Encoder().eval(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "numbers-leave",
            """\
import torch
from torch import nn


class Service(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        with torch.no_grad():  #!
            for layer in self.layers:
                x = layer(x).relu()
            return x.argmax(dim=-1).tolist()


def build():
    return Service(), (torch.randn(4, 8),)
""",
            """\
import torch
from torch import nn


class Service(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        with torch.inference_mode():
            for layer in self.layers:
                x = layer(x).relu()
            return x.argmax(dim=-1).tolist()


def build():
    return Service(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "may-be-trained",
            """\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):  #!
        for layer in self.layers:
            x = layer(x).relu()
        return x


def train(model, x):
    model(x).sum().backward()


def build():
    return Encoder().eval(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "frozen-features-in-training",
            """\
import torch
from torch import nn


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher = nn.Linear(8, 8)
        self.pupil = nn.Linear(8, 8)

    def forward(self, x):
        with torch.no_grad():
            hint = self.teacher(x).tanh().relu().exp().neg().exp().log()
        return self.pupil(x) * hint


def build():
    return Student(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "training",
            """\
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x


def build():
    return Encoder(), (torch.randn(4, 8),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None or context.profile.grad.inference_mode or context.profile.grad.backward_ran:
            return
        yield from _unguarded(sites)
        yield from _weakly_guarded(sites)


# -- no guard at all


def _unguarded(sites: Sites) -> Iterator[Match]:
    grad = sites.context.profile.grad
    function, operators = outermost_function(sites), operators_of(sites.context.profile)
    if function is None or not grad.grad_enabled or _mentions_guard(function) or operators < LEAST_OPERATORS:
        return
    escape = tensors_escape(sites.tree, function, function.body)
    if escape is None and _has_weights(sites.tree, function):
        text = "its results leave as plain numbers, so nothing can run backward through them"
    elif grad.outputs_require_grad and not grad.training:
        text = "the model is in evaluation mode and nothing ran backward"
    else:
        return
    edit = _decorated(sites, function)
    # Code that others train with is no place for a guard; its caller is.
    advice = "" if escape is None else "; called under `torch.inference_mode()` it would record none"
    fixes: tuple[Fix, ...] = ()
    if edit is not None:
        reason = None if escape is None and not _keeps_state(sites) else _why_unsafe(sites)
        fixes = (Fix("Run it under inference_mode", "unsafe" if reason else "safe", edit, reason),)
    yield Match(
        sites.source.line_span(function.lineno),
        f"`{_title(sites.tree, function)}` records a graph of {operators:,} operators for autograd, and nobody uses "
        f"it: {text}{advice}",
        0.0,
        {"operators": operators, "training": grad.training},
        (),
        fixes,
        "warning",
    )


def _mentions_guard(function: Function) -> bool:
    return any(
        isinstance(node, (ast.Name, ast.Attribute)) and (dotted(node) or "").split(".")[-1] in _GUARDS
        for node in walk(function)
    )


def _has_weights(tree: Tree, function: Function) -> bool:
    """Whether the class builds layers or parameters, without which autograd has nothing to record."""
    owner = tree.owner(function)
    if owner is None:
        return True
    built = {(dotted(n.func) or "").split(".")[-1] for n in walk(owner) if isinstance(n, ast.Call)}
    return any(name[:1].isupper() for name in built)


def _title(tree: Tree, function: Function) -> str:
    owner = tree.owner(function)
    return f"{owner.name}.{function.name}" if owner is not None else function.name


def _keeps_state(sites: Sites) -> bool:
    """Whether code that ran in the forward stores something that outlives it."""
    ran = {(cost.span.file, cost.function) for cost in sites.context.profile.lines}
    for path, source in sites.context.sources.items():
        tree = tree_of(source)
        if tree is not None and keeps_state([f for f in tree.functions() if (path, tree.qualname(f)) in ran]):
            return True
    return False


def _why_unsafe(sites: Sites) -> str | None:
    """Why a tensor that leaves under `inference_mode` may meet autograd; None if the file says that it does not."""
    if _keeps_state(sites):
        return "tensors are kept on an object, and training with them later would fail"
    for source in sites.context.sources.values():
        sign = trains(source.tree) if source.tree is not None else None
        if sign is not None:
            return f"the code takes part in training (`{sign}`), and a forward under inference_mode cannot be trained"
    if not evaluates(sites.tree.module):
        return "nothing here says that the model is only evaluated, and under inference_mode it cannot be trained"
    return None


def _decorated(sites: Sites, function: Function):
    torch = torch_name(sites.tree.module)
    if torch is None or isinstance(function, ast.AsyncFunctionDef):
        return None
    return checked(sites.source, [insert_decorator(sites.tree, function, f"@{torch}.inference_mode()")])


# -- no_grad where inference_mode would do


def _weakly_guarded(sites: Sites) -> Iterator[Match]:
    profile = sites.context.profile
    ran = {cost.function for cost in sites.context.costs}
    for function in sites.tree.functions():
        if sites.tree.qualname(function) not in ran:
            continue
        for guard, body, place in _no_grads(sites.tree, function):
            match = _weak_match(sites, profile, function, guard, body, place)
            if match is not None:
                yield match


def _no_grads(tree: Tree, function: Function) -> Iterator[tuple[ast.expr, list[ast.stmt], int]]:
    """Every `no_grad` of a function with the code under it and its line, as a decorator or in a `with` of its own."""
    for decorator in function.decorator_list:
        if _is_no_grad(decorator):
            yield decorator, function.body, decorator.lineno
    for node in walk(function):
        if not isinstance(node, ast.With) or len(node.items) != 1 or tree.function(node) is not function:
            continue
        if _is_no_grad(node.items[0].context_expr):
            yield node.items[0].context_expr, node.body, node.lineno


def _is_no_grad(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) and not node.args and not node.keywords else node
    return (dotted(called) or "").endswith(".no_grad")


def _weak_match(
    sites: Sites, profile: Profile, function: Function, guard: ast.expr, body: list[ast.stmt], line: int
) -> Match | None:
    guarded = sites.share(*body)
    if guarded < LEAST_GUARDED or _keeps_state(sites) or "enable_grad" in _attributes(body):
        return None
    escape = tensors_escape(sites.tree, function, body)
    if escape is not None and (body is not function.body or _why_unsafe(sites) is not None):
        return None
    called = guard.func if isinstance(guard, ast.Call) else guard
    text = sites.tree.text(called).removesuffix("no_grad") + "inference_mode"
    # Without parentheses `inference_mode` is a decorator too, in every version that has it as a class.
    edits = checked(sites.source, [replace_node(sites.source, guard, f"{text}()")])
    if edits is None:
        return None
    return Match(
        sites.source.line_span(line),
        f"`no_grad` covers {percent(guarded)} of the forward, and no tensor made under it meets autograd: "
        "`inference_mode` also saves its version counting and view tracking",
        0.0,
        {"guarded_share": round(guarded, 4), "training": profile.grad.training},
        (),
        (Fix("Use inference_mode", "safe", edits),),
        "info",
    )


def _attributes(body: list[ast.stmt]) -> set[str]:
    return {n.attr for s in body for n in walk(s) if isinstance(n, ast.Attribute)} | {
        name for s in body for name in names_read(s)
    }
