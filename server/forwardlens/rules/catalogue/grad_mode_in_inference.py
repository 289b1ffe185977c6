"""A forward that only predicts but pays for autograd."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import ClassVar

from forwardlens.model import Fix
from forwardlens.rules.callers import own_function
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes
from forwardlens.rules.escape import differentiates, evaluates, keeps_state, tensors_escape, trains
from forwardlens.rules.evidence import Sites, operators_of, outermost_function, percent, ran_functions, sites_of
from forwardlens.rules.layout import LayoutMattersError, calls_of
from forwardlens.rules.numbers import (
    NUMBER_CALLS,
    STORING,
    TO_NUMBERS,
    given_to_library,
    is_number,
    number_names,
    values_seen,
)
from forwardlens.rules.operations import (
    ELEMENTWISE,
    MAY_BE_SAME,
    MAY_WORK_IN_PLACE,
    NORMALISING,
    REDUCTIONS,
    VIEWS,
    records_nothing,
    torch_function,
    torch_name,
)
from forwardlens.rules.repeated import shown
from forwardlens.source.dataflow import METADATA, aliases, aliases_of_all, bindings, is_inplace, overlap
from forwardlens.source.rewrite import checked, insert_decorator, replace_node
from forwardlens.source.tree import Function, Tree, dotted, unpacked, walk

# What autograd costs is a little per operator: with fewer than this there is nothing to gain.
LEAST_OPERATORS = 8
# A guard around less of the forward than this cannot gain enough to be worth a change.
LEAST_GUARDED = 0.10
# A function that does this much of the forward is where the guard belongs, however the forward gets there.
MOST_OF_FORWARD = 0.90

# Functions and methods whose result is memory of its own.
_COMPUTING = (ELEMENTWISE - MAY_BE_SAME) | REDUCTIONS | NORMALISING | {"clone", "acos", "arccos", "asin", "arcsin"}
# What these give back is detached, or whole numbers or flags, which have no gradient.
_WITHOUT_GRAPH = frozenset(
    """detach argmax argmin argsort nonzero count_nonzero eq ne gt ge lt le greater less logical_and logical_or
    logical_not logical_xor isnan isinf isfinite any all long int bool searchsorted bucketize""".split()
)
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
    The fix is offered as safe if the results leave as Python numbers or detached, or if the file puts its model into
    evaluation mode and has no training code. A forward under `inference_mode` cannot be trained, so everywhere else the
    fix is offered as unsafe. Code that keeps tensors on an object gets no safe fix: they would be poisoned for
    training.
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
            "answers-of-a-helper",
            """\
import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def score(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x.mean(dim=-1)

    def predict(self, x):  #!
        answers = []
        for part in x.split(2):
            answers.extend(self.score(part).tolist())
        return {"scores": answers, "best": max(answers)}

    def forward(self, x):
        return self.predict(x)


def build():
    return Ranker(), (torch.randn(4, 8),)
""",
            """\
import torch
from torch import nn


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def score(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x.mean(dim=-1)

    @torch.inference_mode()
    def predict(self, x):
        answers = []
        for part in x.split(2):
            answers.extend(self.score(part).tolist())
        return {"scores": answers, "best": max(answers)}

    def forward(self, x):
        return self.predict(x)


def build():
    return Ranker(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "lists-that-a-library-writes",
            """\
import json

import torch
from torch import nn


class Index(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def embed(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x

    def forward(self, x, size=2):  #!
        rows = []
        for start in range(0, len(x), size):
            part = self.embed(x[start : start + size])
            part = part.detach().cpu().tolist()
            rows.append(part)
        return json.dumps(rows)


def build():
    return Index(), (torch.randn(4, 8),)
""",
            """\
import json

import torch
from torch import nn


class Index(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def embed(self, x):
        for layer in self.layers:
            x = layer(x).relu()
        return x

    @torch.inference_mode()
    def forward(self, x, size=2):
        rows = []
        for start in range(0, len(x), size):
            part = self.embed(x[start : start + size])
            part = part.detach().cpu().tolist()
            rows.append(part)
        return json.dumps(rows)


def build():
    return Index(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "name-that-holds-tensors-and-then-numbers",
            """\
import torch
from torch import nn


class Path(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(5, 5))

    @torch.no_grad()  #!
    def forward(self, x):
        score, back = x[0], []
        for step in x[1:]:
            score, tag = (score[:, None] + self.moves).max(dim=0)
            score = score + step
            back.append(tag)
        path = [int(score.argmax())]
        for tag in reversed(torch.stack(back).tolist()):
            path.append(tag[path[-1]])
        return path[::-1]


def build():
    return Path(), (torch.randn(40, 5),)
""",
            """\
import torch
from torch import nn


class Path(nn.Module):
    def __init__(self):
        super().__init__()
        self.moves = nn.Parameter(torch.randn(5, 5))

    @torch.inference_mode()
    def forward(self, x):
        score, back = x[0], []
        for step in x[1:]:
            score, tag = (score[:, None] + self.moves).max(dim=0)
            score = score + step
            back.append(tag)
        path = [int(score.argmax())]
        for tag in reversed(torch.stack(back).tolist()):
            path.append(tag[path[-1]])
        return path[::-1]


def build():
    return Path(), (torch.randn(40, 5),)
""",
        ),
        Example(
            "tensors-in-a-list-that-a-library-fills",
            """\
import heapq

import torch
from torch import nn


class Beam(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def forward(self, x):
        beam = []
        for layer in self.layers:
            x = layer(x).relu()
            heapq.heappush(beam, (float(x.sum()), x))
        return beam


def build():
    return Beam(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "tensors-in-a-list-that-a-helper-fills",
            """\
import torch
from torch import nn


class Collector(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(8))

    def collect(self, x, states):
        for layer in self.layers:
            x = layer(x).relu()
            states.append(x)

    def forward(self, x):
        states = []
        self.collect(x, states)
        return states


def build():
    return Collector(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "tensors-of-a-helper-that-become-numbers",
            """\
import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(6))

    @torch.no_grad()  #!
    def track(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x, x.norm(dim=-1)

    def forward(self, x, goal):
        place, length = self.track(x)
        return (place[:, :2] - goal[:, :2]).norm(dim=-1).tolist(), length.clamp(max=1.0).max().item()


def build():
    return Tracker(), (torch.randn(4, 3), torch.randn(4, 3))
""",
            """\
import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(6))

    @torch.inference_mode()
    def track(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x, x.norm(dim=-1)

    def forward(self, x, goal):
        place, length = self.track(x)
        return (place[:, :2] - goal[:, :2]).norm(dim=-1).tolist(), length.clamp(max=1.0).max().item()


def build():
    return Tracker(), (torch.randn(4, 3), torch.randn(4, 3))
""",
        ),
        Example(
            "tensors-of-a-helper-that-a-product-keeps",
            """\
import torch
from torch import nn


class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(6))

    @torch.no_grad()
    def track(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x, x.norm(dim=-1)

    def forward(self, x, goal):
        place, length = self.track(x)
        return (place * goal).sum(dim=-1).tolist(), length.clamp(max=1.0).max().item()


def build():
    return Tracker(), (torch.randn(4, 3), torch.randn(4, 3))
""",
        ),
        Example(
            "detached-results",
            """\
import torch
from torch import nn


class Alarm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def score(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().sum(dim=-1)

    def forward(self, x):  #!
        scores = self.score(x)
        kept = []
        for part in scores.detach().split(2):
            kept.append(part.cpu() * 2)
        return torch.cat(kept), (scores > 4.0).nonzero().flatten()


def build():
    return Alarm(), (torch.randn(4, 8),)
""",
            """\
import torch
from torch import nn


class Alarm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def score(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().sum(dim=-1)

    @torch.no_grad()
    def forward(self, x):
        scores = self.score(x)
        kept = []
        for part in scores.detach().split(2):
            kept.append(part.cpu() * 2)
        return torch.cat(kept), (scores > 4.0).nonzero().flatten()


def build():
    return Alarm(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "graph-put-back-into-a-detached-result",
            """\
import torch
from torch import nn


class Alarm(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))

    def score(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return x.square().sum(dim=-1)

    def forward(self, x):
        scores = self.score(x)
        best = scores.detach().clone()
        best.add_(scores)
        return best.cpu(), scores.argmax()


def build():
    return Alarm(), (torch.randn(4, 8),)
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
        ran = ran_functions(context)
        if differentiates(ran):
            return
        yield from _unguarded(sites, ran)
        yield from _weakly_guarded(sites, ran)


# -- no guard at all


def _unguarded(sites: Sites, ran: list[Function]) -> Iterator[Match]:
    grad = sites.context.profile.grad
    function, operators = outermost_function(sites), operators_of(sites.context.profile)
    if function is None or not grad.grad_enabled or _mentions_guard(function) or operators < LEAST_OPERATORS:
        return
    guarded = any(map(_mentions_guard, ran))
    texts = [source.text for source in sites.context.sources.values()]
    plain = not guarded and not any("requires_grad" in text or "is_grad_enabled" in text for text in texts)
    reader = _reader(sites, function) if plain else None
    advice = ""
    if reader is not None and _has_weights(sites.tree, reader):
        function = reader
        text = "its results leave as plain numbers, so nothing can run backward through them"
        fix = _guard(sites, function, "inference_mode", _state_kept(ran))
    elif plain and _has_weights(sites.tree, function) and _lets_no_graph_out(sites, function, ran):
        text = "no tensor that it returns has one, so nothing can run backward through them"
        # Tensors leave: only where nothing is trained may they be such that autograd cannot take later.
        fix = _guard(sites, function, "no_grad" if _why_unsafe(sites, ran) else "inference_mode", None)
    elif grad.outputs_require_grad and not grad.training:
        text = "the model is in evaluation mode and nothing ran backward"
        # Code that others train with is no place for a guard; its caller is.
        advice = "; called under `torch.inference_mode()` it would record none"
        fix = _guard(sites, function, "inference_mode", _why_unsafe(sites, ran))
    else:
        return
    yield Match(
        sites.source.line_span(function.lineno),
        f"`{_title(sites.tree, function)}` records a graph of {operators:,} operators for autograd, and nobody uses "
        f"it: {text}{advice}",
        0.0,
        {"operators": operators, "training": grad.training},
        (),
        (fix,) if fix is not None else (),
        "warning",
    )


def _reader(sites: Sites, outermost: Function) -> Function | None:
    """The innermost function that does nearly all of the forward's work once and lets no tensor out.

    A `forward` may do nothing but call it.
    """
    found, function, seen = None, outermost, set[Function]()
    whole = _total_ms(sites, function)
    while function is not None and function not in seen and _total_ms(sites, function) >= MOST_OF_FORWARD * whole:
        seen.add(function)
        if tensors_escape(sites, function, function.body) is None:
            found = function
        function = _called(sites, function)
    return found


def _called(sites: Sites, function: Function) -> Function | None:
    """The costliest function of this file that `function` calls once."""
    calls = [n for n in walk(function) if isinstance(n, ast.Call) and not any(sites.tree.loops(n))]
    called = [g for call in calls if (g := own_function(sites, call)) is not None and g is not function]
    return max(called, key=lambda g: _total_ms(sites, g), default=None)


def _total_ms(sites: Sites, function: Function) -> float:
    name = sites.tree.qualname(function)
    return sum(cost.total_ms for cost in sites.context.costs if cost.function == name)


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


def _state_kept(ran: list[Function]) -> str | None:
    return "tensors are kept on an object, and training with them later would fail" if keeps_state(ran) else None


def _why_unsafe(sites: Sites, ran: list[Function]) -> str | None:
    """Why a tensor that leaves under `inference_mode` may meet autograd; None if the file says that it does not."""
    if kept := _state_kept(ran):
        return kept
    for source in sites.context.sources.values():
        sign = trains(source.tree) if source.tree is not None else None
        if sign is not None:
            return f"the code takes part in training (`{sign}`), and a forward under inference_mode cannot be trained"
    if not evaluates(sites.tree.module):
        return "nothing here says that the model is only evaluated, and under inference_mode it cannot be trained"
    return None


def _guard(sites: Sites, function: Function, guard: str, reason: str | None) -> Fix | None:
    """The fix that puts a guard on a function, unsafe if there is a reason for it."""
    torch = torch_name(sites.tree.module)
    if torch is None or isinstance(function, ast.AsyncFunctionDef):
        return None
    edits = checked(sites.source, [insert_decorator(sites.tree, function, f"@{torch}.{guard}()")])
    return Fix(f"Run it under {guard}", "unsafe" if reason else "safe", edits, reason) if edits is not None else None


# -- results without a graph


def _lets_no_graph_out(sites: Sites, function: Function, ran: list[Function]) -> bool:
    """Whether no tensor that a function lets out can have a graph, whatever it is given."""
    if keeps_state(ran) or _changes_arguments(sites, function):
        return False
    if tensors_escape(sites, function, function.body, by_return=False) is not None:
        return False
    return _returns_no_graph(sites, function, frozenset())


def _returns_no_graph(sites: Sites, function: Function, seen: frozenset[object]) -> bool:
    if function in seen:
        return False
    returned = [n.value for n in walk(function) if isinstance(n, ast.Return) and n.value is not None]
    return all(_has_no_graph(sites, function, value, seen | {function}) for value in returned)


def _has_no_graph(sites: Sites, function: Function, node: ast.expr, seen: frozenset[object]) -> bool:
    """Whether a value certainly holds no tensor with a graph: detached, of whole numbers, or made of such."""

    def clear(part: ast.expr | None) -> bool:
        return part is None or _has_no_graph(sites, function, part, seen)

    if is_number(sites, node, number_names(sites, function), frozenset({function})):
        return True
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(map(clear, node.elts))
    if isinstance(node, ast.Dict):
        return all(map(clear, (*node.keys, *node.values)))
    if isinstance(node, ast.IfExp):
        return clear(node.body) and clear(node.orelse)
    if isinstance(node, ast.BinOp):
        return clear(node.left) and clear(node.right)
    if isinstance(node, (ast.Subscript, ast.Starred)):
        return clear(node.value)
    if isinstance(node, ast.UnaryOp):
        return clear(node.operand)
    if isinstance(node, ast.Name):
        return _name_has_no_graph(sites, function, node, seen)
    if isinstance(node, ast.Call):
        called = own_function(sites, node)
        return _returns_no_graph(sites, called, seen) if called is not None else _call_has_no_graph(sites, node, clear)
    if isinstance(node, ast.Attribute):
        # `x.max(0).values` is a part of a result.
        return isinstance(node.value, ast.Call) and clear(node.value)
    return isinstance(node, ast.Compare)


def _call_has_no_graph(sites: Sites, call: ast.Call, clear: Callable[[ast.expr | None], bool]) -> bool:
    name = torch_function(sites.tree.module, call.func)
    method = name is None and isinstance(call.func, ast.Attribute)
    receiver = call.func.value if isinstance(call.func, ast.Attribute) and method else None
    name = call.func.attr if isinstance(call.func, ast.Attribute) else name
    # Layers and functions of other files have weights of their own.
    if name is None or is_inplace(name) or (receiver is not None and (dotted(receiver) or "").startswith("self")):
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return name in _WITHOUT_GRAPH or all(map(clear, (receiver, *given)))


def _name_has_no_graph(sites: Sites, function: Function, read: ast.Name, seen: frozenset[object]) -> bool:
    """Whether all that a name may be bound to where it is read, and all that is put into it, has no graph."""
    certain = values_seen(sites, read)
    values = [*certain] or [_bound_to(sites.tree, store) for store in bindings(function, read.id)]
    if read.id in seen or not values:
        return False
    shared = aliases(function, read.id)
    for node, place in changes(sites, function):
        if place is not None and not any(overlap(place, s) for s in shared):
            continue
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in STORING:
            return False
        values += [*node.args, *(keyword.value for keyword in node.keywords)]
    for name, call in given_to_library(sites, function):
        given = [*call.args, *(keyword.value for keyword in call.keywords)] if name in shared else []
        values += [value for value in given if dotted(value) not in shared]
    return all(value is not None and _has_no_graph(sites, function, value, seen | {read.id}) for value in values)


def _bound_to(tree: Tree, store: ast.AST) -> ast.expr | None:
    """What a name is bound to, or to a part of; None where that is unclear."""
    statement = None if isinstance(store, ast.arg) else tree.statement(store)
    if isinstance(statement, ast.For):
        return statement.iter if store in walk(statement.target) else None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    if not isinstance(statement, ast.Assign) or not any(store in walk(target) for target in targets):
        return None
    pairs = (pair for target in targets for pair in unpacked(target, statement.value) or ())
    return next((value for target, value in pairs if target is store), statement.value)


# -- no_grad where inference_mode would do


def _weakly_guarded(sites: Sites, ran: list[Function]) -> Iterator[Match]:
    if keeps_state(ran):
        return
    for function in sites.tree.functions():
        if function not in ran:
            continue
        for guard, body, place in _no_grads(sites.tree, function):
            match = _weak_match(sites, ran, function, guard, body, place)
            if match is not None:
                yield match


def _no_grads(tree: Tree, function: Function) -> Iterator[tuple[ast.expr, list[ast.stmt], int]]:
    """Every `no_grad` of a function with the code under it and its line, as a decorator or in a `with`."""
    for decorator in function.decorator_list:
        if records_nothing(tree.module, decorator) == "no_grad":
            yield decorator, function.body, decorator.lineno
    for node in walk(function):
        if isinstance(node, ast.With) and tree.function(node) is function:
            for item in node.items:
                if records_nothing(tree.module, item.context_expr) == "no_grad" and item.optional_vars is None:
                    yield item.context_expr, node.body, node.lineno


def _weak_match(
    sites: Sites, ran: list[Function], function: Function, guard: ast.expr, body: list[ast.stmt], line: int
) -> Match | None:
    grad = sites.context.profile.grad
    guarded = _covered(sites, body)
    if guarded < LEAST_GUARDED:
        return None
    escape = tensors_escape(sites, function, body)
    # What leaves the whole forward meets autograd only if the program trains; what leaves a part of it, also here.
    whole = body is function.body and (function is outermost_function(sites) or not grad.grad_enabled)
    helper = body is function.body and escape is not None and _callers_stay_clear(sites, function)
    if escape is not None and not helper and (not whole or _why_unsafe(sites, ran) is not None):
        return None
    called = guard.func if isinstance(guard, ast.Call) else guard
    prefix = sites.tree.text(called).rpartition(".")[0] or torch_name(sites.tree.module)
    if prefix is None:
        return None
    # Without parentheses `inference_mode` is a decorator too, in every version that has it as a class.
    edits = checked(sites.source, [replace_node(sites.source, guard, f"{prefix}.inference_mode()")])
    if edits is None:
        return None
    return Match(
        sites.source.line_span(line),
        f"`{shown(sites.tree.text(called)).split('.')[-1]}` covers {percent(guarded)} of the forward, and no tensor "
        "made under it meets autograd: `inference_mode` also saves its version counting and view tracking",
        0.0,
        {"guarded_share": round(guarded, 4), "training": grad.training},
        (),
        (Fix("Use inference_mode", "safe", edits),),
        "info",
    )


def _callers_stay_clear(sites: Sites, function: Function) -> bool:
    """Whether what a helper returns meets no autograd where it is called, and it lets no tensor out in other ways."""
    others = (s.text for path, s in sites.context.sources.items() if path != sites.source.path)
    if len(function.decorator_list) > 1 or any(function.name in text for text in others):
        return False
    if tensors_escape(sites, function, function.body, by_return=False) is not None:
        return False
    return not _changes_arguments(sites, function) and _results_stay_clear(sites, function)


def _results_stay_clear(sites: Sites, function: Function) -> bool:
    if function.name == "forward" or function.name.startswith("__"):
        return False
    try:
        calls = frozenset(calls_of(sites, function))
    except LayoutMattersError:
        return False
    todo, seen = list[ast.expr](calls), set[ast.expr]()
    while todo:
        node = todo.pop()
        readers = [] if node in seen else _handed_on(sites, node, calls)
        if readers is None:
            return False
        seen.add(node)
        todo += readers
    return bool(calls)


def _changes_arguments(sites: Sites, function: Function) -> bool:
    """Whether a function may change in place what it is given: without a version counter autograd cannot notice."""
    given = {n.arg for n in walk(function.args) if isinstance(n, ast.arg)}
    places = [place for _, place in changes(sites, function)]
    shared = {s.split(".")[0] for s in aliases_of_all(function, (p for p in places if p is not None))}
    return None in places or bool(shared & given)


def _handed_on(sites: Sites, node: ast.expr, calls: frozenset[ast.Call]) -> list[ast.expr] | None:
    """Where a tensor made under `inference_mode` goes on from `node`, itself or as a view; None if that may fail.

    It must not be changed, leave the function or be kept for a backward. What is computed from it is a tensor like any
    other, and ends the search. `calls` run under the guard themselves.
    """
    tree, function = sites.tree, sites.tree.function(node)
    parent = tree.parent(node)
    if function is None:
        return None

    def plain(other: ast.expr) -> bool:
        return is_number(sites, other, number_names(sites, function), frozenset({function}))

    if isinstance(parent, (ast.Expr, ast.Compare)):
        return []
    if isinstance(parent, ast.UnaryOp):
        return None if isinstance(parent.op, ast.UAdd) else []
    if isinstance(parent, ast.BinOp):
        # A sum keeps no operand for its backward.
        other = parent.right if parent.left is node else parent.left
        return [] if isinstance(parent.op, (ast.Add, ast.Sub)) or plain(other) else None
    if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
        return [parent] if plain(parent.slice) else None
    if isinstance(parent, ast.Assign):
        return _reads(tree, function, parent.targets)
    if isinstance(parent, ast.Attribute) and parent.attr in METADATA | TO_NUMBERS:
        return []
    call = tree.parent(parent) if isinstance(parent, ast.Attribute) else parent
    if not isinstance(call, ast.Call):
        return None
    if call in calls or dotted(call.func) in NUMBER_CALLS:
        return []
    name = parent.attr if isinstance(parent, ast.Attribute) else torch_function(tree.module, call.func)
    given = [a for a in (*call.args, *(k.value for k in call.keywords)) if a is not node]
    in_place = name is None or is_inplace(name) or (name in MAY_WORK_IN_PLACE and bool(given))
    if in_place or not all(map(plain, given)):
        return None
    return [] if name in _COMPUTING else [call] if name in VIEWS | MAY_BE_SAME else None


def _reads(tree: Tree, function: Function, targets: list[ast.expr]) -> list[ast.expr] | None:
    """The reads of the names that an assignment binds; None if one is added to in place, or is no name."""
    names: set[str] = set()
    for target in (e for t in targets for e in (t.elts if isinstance(t, (ast.Tuple, ast.List)) else [t])):
        if not isinstance(target, ast.Name):
            return None
        names.add(target.id)
    found = [n for n in walk(function) if isinstance(n, ast.Name) and n.id in names]
    if any(isinstance(n.ctx, ast.Store) and isinstance(tree.parent(n), ast.AugAssign) for n in found):
        return None
    return [n for n in found if isinstance(n.ctx, ast.Load)]


def _covered(sites: Sites, block: list[ast.stmt]) -> float:
    """The share of the forward that a block takes with the functions that it calls."""
    whole = sites.context.profile.forward.wall_ms.median
    costs = {id(cost): cost.total_ms for statement in block for _, cost in sites.inside(statement)}
    return min(1.0, sum(costs.values()) / whole) if whole else 0.0
