"""A mixture of experts that finds each expert's tokens with a mask of its own."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

from forwardlens.rules.callers import arguments_of, by_loop, own_function, rounds_of
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.repeated import LEAST_ROUNDS, body, head, in_rounds, place
from forwardlens.rules.rounds import outermost, sorting, variables_of
from forwardlens.source.dataflow import names_read
from forwardlens.source.tree import Function, Looping, dotted, walk

_PRODUCTS = ("aten::linear", "aten::matmul", "aten::mm", "aten::bmm", "aten::einsum", "aten::addmm")
# Methods and attributes that show a weight in another layout or dtype.
_TURNED = frozenset("t T mT transpose permute contiguous unsqueeze to float half bfloat16".split())
_FINDING = frozenset({"aten::eq", "aten::nonzero", "aten::nonzero_numpy", "aten::where", "aten::any", "aten::argwhere"})


class ExpertLoop(Rule):
    """## What it does
    Finds loops over experts that pick each expert's tokens with a mask, run the expert, and put the results back.

    ## Why it costs
    Every expert pays a comparison over all tokens, the positions of the hits, a gather and a scatter, whether it has
    tokens or not. The number of hits is only known on the device, so the host waits for it several times per expert.

    ## When to ignore it
    With few experts, or with so many tokens per expert that the products outweigh the search.

    ## Fix safety
    There is no automatic fix: sorting the tokens by expert restructures the layer. Sort once with `argsort`, count
    once with `bincount`, split the sorted tokens, and put the results back with one `index_copy`; with weights in one
    tensor, `torch._grouped_mm` or a batched product takes all experts at once.
    """

    name: ClassVar[str] = "expert-loop"
    covers: ClassVar[Mapping[str, Literal["expression", "loop"]]] = {"masking-in-loop": "loop"}
    summary: ClassVar[str] = "A mask, a search and a gather for each expert"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "mask-per-expert",
            """\
import torch
from torch import nn


class Routed(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 12)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

    def forward(self, x):
        choice = self.gate(x).argmax(dim=-1)
        out = torch.zeros_like(x)
        for e in range(12):
            out[choice == e] = self.experts[e](x[choice == e])  #!
        return out


def build():
    return Routed(), (torch.randn(64, 8),)
""",
        ),
        Example(
            "positions-from-one-hot",
            """\
import torch
from torch import nn


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 12)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

    def forward(self, x):
        chosen = nn.functional.one_hot(self.gate(x).topk(2).indices, 12).permute(2, 1, 0)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            out.index_add_(0, torch.where(chosen[e])[1], expert(x[torch.where(chosen[e])[1]]))  #!
        return out


def build():
    return Sparse(), (torch.randn(64, 8),)
""",
        ),
        Example(
            "stacked-weights-in-a-helper",
            """\
import torch
from torch import nn


class Stacked(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 12)
        self.weights = nn.Parameter(torch.randn(12, 8, 8))

    def run(self, e, rows):
        return (rows @ self.weights[e]).relu()

    def forward(self, x):
        pick = self.gate(x).topk(2).indices
        out = torch.zeros_like(x)
        for e in range(12):
            out.index_add_(0, torch.where(pick == e)[0], self.run(e, x[torch.where(pick == e)[0]]))  #!
        return out


def build():
    return Stacked(), (torch.randn(64, 8),)
""",
        ),
        Example(
            "every-expert-on-every-token",
            """\
import torch
from torch import nn


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 12)
        self.weights = nn.Parameter(torch.randn(12, 8, 8))

    def forward(self, x):
        choice = self.gate(x).argmax(dim=-1)
        out = 0
        for e in range(12):
            out = out + (choice == e).unsqueeze(-1) * (x @ self.weights[e])  #!
        return out


def build():
    return Dense(), (torch.randn(64, 8),)
""",
        ),
        Example(
            "three-experts",
            """\
import torch
from torch import nn


class Few(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 3)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        choice = self.gate(x).argmax(dim=-1)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            out[choice == e] = expert(x[choice == e])
        return out


def build():
    return Few(), (torch.randn(64, 8),)
""",
        ),
        Example(
            "mean-of-each-class",
            """\
import torch
from torch import nn


class Centres(nn.Module):
    def forward(self, x, labels):
        return torch.stack([x[labels == c].mean(dim=0) for c in range(12)])


def build():
    return Centres(), (torch.randn(96, 4), torch.arange(96) % 12)
""",
        ),
        Example(
            "sorted-once",
            """\
import torch
from torch import nn


class Grouped(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 12)
        self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(12))

    def forward(self, x):
        choice = self.gate(x).argmax(dim=-1)
        order = choice.argsort()
        groups = x[order].split(choice.bincount(minlength=12).tolist())
        done = torch.cat([expert(group) for expert, group in zip(self.experts, groups)])
        return torch.empty_like(x).index_copy(0, order, done)


def build():
    return Grouped(), (torch.randn(64, 8),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        nodes = [n for n, c in sites.items() if any(op.name in _FINDING for op in c.ops) and _repeated(sites, n)]
        for loop, finding in by_loop(sites, nodes).items():
            assert isinstance(loop, Looping)
            if _has_expert(sites, loop) and (sorting(sites, loop) or _searches(sites, loop)):
                yield _match(sites, loop, finding)


def _repeated(sites: Sites, node: ast.AST) -> bool:
    return rounds_of(sites, node) >= LEAST_ROUNDS


def _has_expert(sites: Sites, loop: Looping) -> bool:
    """Whether the rounds differ in the layer that they run, or in the weight of a product."""
    for parts, variables in _rounds(sites, body(loop), frozenset(variables_of(loop))):
        for node in (n for part in parts for n in walk(part)):
            if isinstance(node, ast.Call) and _varies(node.func, variables):
                return True
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult) and _varies(node.right, variables):
                return True
            if (
                isinstance(node, ast.Call)
                and sites.op(node, *_PRODUCTS) is not None
                and any(_varies(a, variables) for a in node.args[1:])
            ):
                return True
    return False


def _rounds(
    sites: Sites, parts: list[ast.AST], variables: frozenset[str]
) -> Iterator[tuple[list[ast.AST], frozenset[str]]]:
    """What a round runs, with the names that hold the loop's number, a layer or a weight that it chose.

    The functions that the round calls are part of it, with the parameters that are given such a value: once for all
    calls that give it to the same ones.
    """
    todo, met = [(parts, variables)], set[tuple[Function, frozenset[str]]]()
    while todo:
        parts, variables = todo.pop()
        for node in (n for part in parts for n in walk(part)):
            if isinstance(node, ast.Assign) and _varies(node.value, variables) and _is_own(node.value):
                variables |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        yield parts, variables
        for call in (n for part in parts for n in walk(part) if isinstance(n, ast.Call)):
            function = own_function(sites, call)
            if function is None:
                continue
            given = arguments_of(function, call) or {}
            inner = frozenset(name for name, value in given.items() if _varies(value, variables))
            if (function, inner) not in met:
                met.add((function, inner))
                todo.append(([*function.body], inner))


def _is_own(node: ast.expr) -> bool:
    """`self.experts[e]`, `getattr(self, name)`: a part of the object, and not rows of a tensor that it is given."""
    if isinstance(node, ast.Subscript):
        return (dotted(node.value) or "").startswith("self.")
    return isinstance(node, ast.Call)


def _varies(node: ast.expr, variables: frozenset[str]) -> bool:
    """`expert`, `self.experts[e]`, `self.weights[e].t()`: chosen by the loop's variable."""
    if isinstance(node, ast.Name):
        return node.id in variables
    if isinstance(node, ast.Subscript):
        return bool(names_read(node.slice) & variables)
    if isinstance(node, ast.Attribute) and node.attr in _TURNED:
        return _varies(node.value, variables)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _TURNED:
        return _varies(node.func.value, variables)
    return isinstance(node, ast.Call) and _is_getattr(node) and any(_varies(a, variables) for a in node.args)


def _is_getattr(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == "getattr"


def _searches(sites: Sites, loop: Looping) -> bool:
    """Whether a round looks for positions, whose number only the device knows."""
    return any(
        op.name.startswith("aten::nonzero") or op.name == "aten::argwhere"
        for parts, _ in _rounds(sites, body(loop), frozenset())
        for part in parts
        for _, cost in sites.inside(part)
        for op in cost.ops
    )


def _match(sites: Sites, loop: Looping, finding: list[ast.AST]) -> Match:
    inside = [(n, c) for part in body(loop) for n, c in sites.inside(part) if in_rounds(c)]
    parts = [part for parts, _ in _rounds(sites, body(loop), frozenset()) for part in parts]
    hot = max(inside, key=lambda item: item[1].share)[0]
    experts = max(rounds_of(sites, n) for n in finding)
    calls = sum(op.calls for part in parts for _, c in sites.inside(part) for op in outermost(c))
    share = sites.share(*parts)
    searched = _searches(sites, loop)
    what = "looks for the tokens of" if searched else "runs every token through"
    wait = ", and each search makes the host wait for the device" if searched else ""
    return Match(
        place(sites, hot),
        f"This loop {what} {experts} experts one by one, {calls} operators that take {percent(share)} of the "
        f"forward{wait}: sort the tokens by expert once (`argsort`, `bincount`, `split`) and put the results back with "
        "one `index_copy`",
        share,
        {"experts": experts, "operators": calls},
        (head(sites, loop),),
    )
