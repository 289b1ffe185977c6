"""The same weight or value converted to the same dtype again and again."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import ClassVar

from forwardlens.model import Edit, ExpressionCost, Fix, Related
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import arguments_of, called_function
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites, percent, ran_functions, sites_of, times
from forwardlens.rules.invariants import is_same, once_before
from forwardlens.rules.operations import MATRIX_PRODUCTS, VIEW_ATTRIBUTES, VIEWS, records_nothing
from forwardlens.rules.repeated import bound_in, head
from forwardlens.rules.vectorise.replacing import without_statement
from forwardlens.source import dataflow
from forwardlens.source.dataflow import aliases, bindings, definition, overlap
from forwardlens.source.rewrite import checked, insert_before, replace_node, splice, stands_alone
from forwardlens.source.tree import Function, Looping, dotted, walk

_CAST = frozenset({"aten::to"})
_CASTS = frozenset({"float", "half", "bfloat16", "double", "to", "type", "type_as"})


class DtypeCastChurn(Rule):
    """## What it does
    Finds conversions that copied although what they convert stays the same: a weight or buffer converted in every
    forward, or one value converted to the same dtype several times: in every round of a loop too, or by each of the
    layers that it is handed to.

    ## Why it costs
    Each conversion reads the whole tensor and writes it in another size. For a weight that is as much memory traffic
    as the product it is used in, or more when only one token is processed.

    ## When to ignore it
    When the weight is trained in the narrow dtype and must be computed with in the wide one, as for a stable loss.

    ## Fix safety
    A weight that a loop converts in every round is converted once before the loop if it needs no gradient there, the
    loop leaves it alone, uses the result only to read it, and asks for one dtype in all rounds. Another value that
    all rounds convert is converted once before the loop if it holds whole numbers, or becomes them: gradients of all
    rounds would be summed in another dtype. Otherwise there is no
    automatic fix: a converted weight that is kept goes stale with the next optimizer step or `load_state_dict`, and
    takes memory. For inference convert the module once (`module.float()`), for training let `torch.autocast` keep its
    own cache.
    """

    name: ClassVar[str] = "dtype-cast-churn"
    summary: ClassVar[str] = "The same conversion to another dtype again and again"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "weight-in-every-forward",
            """\
import torch
from torch import nn


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(500, 64, dtype=torch.bfloat16), requires_grad=False)

    def forward(self, x):
        return x @ self.weight.float().t()  #!


def build():
    return Head(), (torch.randn(1, 64),)
""",
        ),
        Example(
            "buffer-in-every-round",
            """\
import torch
from torch import nn


class Shelf(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shelf", torch.randn(2048, 32).half())

    def forward(self, x):
        chunks = x.split(64)
        return torch.cat([chunk @ self.shelf.to(dtype=chunk.dtype).t() for chunk in chunks])  #!


def build():
    return Shelf(), (torch.randn(8192, 32),)
""",
            """\
import torch
from torch import nn


class Shelf(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shelf", torch.randn(2048, 32).half())

    def forward(self, x):
        chunks = x.split(64)
        shelf_cast = self.shelf.to(dtype=chunks[0].dtype)
        return torch.cat([chunk @ shelf_cast.t() for chunk in chunks])


def build():
    return Shelf(), (torch.randn(8192, 32),)
""",
        ),
        Example(
            "named-in-every-round",
            """\
import torch
from torch import nn


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 512, bias=False, dtype=torch.bfloat16)

    @torch.no_grad()
    def forward(self, x):
        scores = []
        for start in range(0, x.size(0), 16):
            weight = self.head.weight.float()  #!
            scores.append((x[start : start + 16] @ weight.t()).amax(dim=-1))
        return torch.cat(scores)


def build():
    return Scores(), (torch.randn(4800, 64),)
""",
            """\
import torch
from torch import nn


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 512, bias=False, dtype=torch.bfloat16)

    @torch.no_grad()
    def forward(self, x):
        scores = []
        weight = self.head.weight.float()
        for start in range(0, x.size(0), 16):
            scores.append((x[start : start + 16] @ weight.t()).amax(dim=-1))
        return torch.cat(scores)


def build():
    return Scores(), (torch.randn(4800, 64),)
""",
        ),
        Example(
            "weight-whose-gradients-add-up",
            """\
import torch
from torch import nn


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2048, 32, dtype=torch.bfloat16))

    def forward(self, x):
        return torch.cat([chunk @ self.weight.float().t() for chunk in x.split(64)])  #!


def build():
    return Trained(), (torch.randn(1024, 32),)
""",
        ),
        Example(
            "same-value-twice",
            """\
import torch
from torch import nn


class Two(nn.Module):
    def forward(self, x):
        a = x.to(torch.bfloat16).sum(dim=1)  #!
        b = x.to(torch.bfloat16).amax(dim=1)
        return a + b


def build():
    return Two(), (torch.randn(200, 64),)
""",
        ),
        Example(
            "whole-numbers-in-every-round",
            """\
import torch
from torch import nn


class Probes(nn.Module):
    def __init__(self):
        super().__init__()
        self.probes = nn.ModuleDict({name: nn.Linear(64, 1) for name in ("glare", "blur", "rain")})

    def forward(self, pixels):
        return torch.cat([*{name: probe(pixels.float()) for name, probe in self.probes.items()}.values()])  #!


def build():
    return Probes(), (torch.randint(0, 256, (400, 64), dtype=torch.uint8),)
""",
            """\
import torch
from torch import nn


class Probes(nn.Module):
    def __init__(self):
        super().__init__()
        self.probes = nn.ModuleDict({name: nn.Linear(64, 1) for name in ("glare", "blur", "rain")})

    def forward(self, pixels):
        pixels_cast = pixels.float()
        return torch.cat([*{name: probe(pixels_cast) for name, probe in self.probes.items()}.values()])


def build():
    return Probes(), (torch.randint(0, 256, (400, 64), dtype=torch.uint8),)
""",
        ),
        Example(
            "value-whose-gradients-add-up",
            """\
import torch
from torch import nn


class Probes(nn.Module):
    def __init__(self):
        super().__init__()
        self.probes = nn.ModuleList(nn.Linear(64, 1) for _ in range(4))

    def forward(self, x):
        found = []
        for probe in self.probes:
            found.append(probe(x.float()))  #!
        return torch.cat(found)


def build():
    return Probes(), (torch.randn(400, 64, dtype=torch.bfloat16),)
""",
        ),
        Example(
            "written-to-in-place",
            """\
import torch
from torch import nn


class Fades(nn.Module):
    def __init__(self):
        super().__init__()
        self.probes = nn.ModuleList(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(64, 1)) for _ in range(4))

    def forward(self, pixels):
        found = []
        for probe in self.probes:
            found.append(probe(pixels.float()))
        return torch.cat(found)


def build():
    return Fades(), (torch.randint(-128, 127, (400, 64)),)
""",
        ),
        Example(
            "argument-of-several-layers",
            """\
import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 8)

    def forward(self, x, links):
        links = links.float()  #!
        return links @ self.mix(x)


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), Layer()
        self.third = Layer()

    def forward(self, x, links):
        x = self.first(x, links)
        x = self.second(x, links)
        return self.third(x, links)


def build():
    return Graph(), (torch.randn(200, 8), torch.randint(0, 2, (200, 200)))
""",
        ),
        Example(
            "converted-once",
            """\
import torch
from torch import nn


class Stable(nn.Module):
    def forward(self, x):
        return x.float().softmax(dim=-1).to(x.dtype)


def build():
    return Stable(), (torch.randn(200, 64, dtype=torch.bfloat16),)
""",
        ),
        Example(
            "nothing-to-convert",
            """\
import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(500, 64))

    def forward(self, x):
        return x @ self.weight.float().t()


def build():
    return Wide(), (torch.randn(1, 64),)
""",
        ),
        Example(
            "another-layout-of-the-same-dtype",
            """\
import torch
from torch import nn


class Layout(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 16, 32, 32))

    def forward(self, x):
        return x + self.weight.to(memory_format=torch.channels_last)


def build():
    return Layout(), (torch.randn(8, 16, 32, 32),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        groups: dict[tuple[ast.AST | None, str, str], list[tuple[ast.Call, ExpressionCost]]] = defaultdict(list)
        for node, cost in sites.items():
            place = _converted(node, cost)
            if place is not None and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                cast = sites.tree.text(node)[len(sites.tree.text(node.func.value)) :]
                groups[sites.tree.function(node), place, cast].append((node, cost))
        for (function, place, _), found in groups.items():
            if place.startswith("self.") and _is_written(sites, place):
                continue
            if place.startswith("self.") and "." in place:
                yield _weight(sites, place, found)
            elif len(found) > 1 and _never_bound_again(function, place):
                yield _value(sites, place, found)
            elif len(found) == 1 and (loop := _loop_of_the_same(sites, *found[0])) is not None:
                yield _in_loop(sites, place, *found[0], loop)
            elif (calls := _calls_with_the_same(sites, *found[0], place)) and len(found) == 1:
                yield _argument(sites, place, *found[0], calls)


def _calls_with_the_same(sites: Sites, cast: ast.Call, cost: ExpressionCost, place: str) -> Sequence[ast.Call]:
    """The calls that gave a function the same value each time as its parameter `place`; none if one may be another."""
    tree, function = sites.tree, sites.tree.function(cast)
    if function is None or cost.calls < 2 or cost.calls_per_entry != 1:
        return ()
    ran = [f for f in ran_functions(sites.context) if f in tree.functions()]
    every = [n for f in ran for n in walk(f) if isinstance(n, ast.Call) and called_function(sites, n) is function]
    counted = sum(own.calls for call in every if (own := sites.cost(call)) is not None)
    names = {(tree.function(call), dotted((arguments_of(function, call) or {}).get(place, call))) for call in every}
    caller, name = names.pop() if len(names) == 1 else (None, None)
    same = caller is not None and name is not None and "." not in name and len(bindings(caller, name)) == 1
    return every if same and counted == cost.calls else ()


def _argument(sites: Sites, place: str, cast: ast.Call, cost: ExpressionCost, calls: Sequence[ast.Call]) -> Match:
    return Match(
        sites.source.span(cast),
        f"`{place}` is converted {_from_to(cost)} {times(cost.calls)} in one forward, {percent(cost.share)} of it, and "
        "was the same each time: convert it once before it is handed on",
        cost.share,
        {"calls": cost.calls},
        tuple(Related(sites.source.span(call), "is given the same") for call in calls),
    )


def _converted(node: ast.AST, cost: ExpressionCost) -> str | None:
    """The name whose value `node` copies into another dtype."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr not in _CASTS:
        return None
    return dotted(node.func.value) if _large(cost) and _conversion(cost) is not None else None


def _conversion(cost: ExpressionCost) -> tuple[str, str] | None:
    """The dtypes from and to which `cost` copied; empty names where the recording has none, None without a change.

    `Tensor.to` copies for another device or layout as well.
    """
    if not cost.op_calls("aten::_to_copy"):
        return None
    copies = [op for op in cost.ops if op.name == "aten::copy_"]
    known = [(op.dtypes[1], op.dtypes[0]) for op in copies if len(op.dtypes) >= 2 and len(op.shapes[0])]
    if not known:
        return ("", "")
    return next(((before, after) for before, after in known if before != after), None)


def _from_to(cost: ExpressionCost) -> str:
    before, after = _conversion(cost) or ("", "")
    return f"from {before} to {after}" if before and after else "to another dtype"


def _large(cost: ExpressionCost) -> bool:
    """Whether the copy is of more than a number."""
    return any(op.name == "aten::_to_copy" and op.shapes and op.shapes[0] for op in cost.ops)


def _never_bound_again(function: ast.AST | None, place: str) -> bool:
    if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    return len(bindings(function, place)) == 1


def _weight(sites: Sites, place: str, found: list[tuple[ast.Call, ExpressionCost]]) -> Match:
    node, cost = max(found, key=lambda item: item[1].share)
    share = sum(c.share for _, c in found)
    calls = sum(c.calls for _, c in found)
    return Match(
        sites.source.span(node),
        f"`{place}` is converted {_from_to(cost)} {times(calls)} in every forward, {percent(share)} of it, although it "
        "changes only when it is trained or loaded: for inference convert the module once, for training let "
        "`torch.autocast` keep the copy",
        share,
        {"calls": cost.calls},
        (),
        _hoisted(sites, place, node),
    )


# -- once before the loop


def _loop_of_the_same(sites: Sites, cast: ast.Call, cost: ExpressionCost) -> Looping | None:
    """The loop that converts the same value in every round."""
    loop = next(sites.tree.loops(cast), None) if cost.calls_per_entry > 1 else None
    return loop if loop is not None and is_same(sites, loop, cast, _CAST) else None


def _in_loop(sites: Sites, place: str, cast: ast.Call, cost: ExpressionCost, loop: Looping) -> Match:
    message = (
        f"`{place}` is converted {_from_to(cost)} in each of {cost.calls} rounds, {percent(cost.share)} of the "
        "forward, although the loop leaves it as it is"
    )
    fix: Fix | None = None
    try:
        fix = Fix("Convert it once before the loop", "safe", _once(sites, place, cast, loop))
    except RefusedError as refused:
        message = f"{message}: convert it once before the loop. No automatic fix: {refused}"
    return Match(
        sites.source.span(cast),
        message,
        cost.share,
        {"rounds": cost.calls},
        (head(sites, loop),),
        (fix,) if fix is not None else (),
    )


def _once(sites: Sites, place: str, cast: ast.Call, loop: Looping) -> tuple[Edit, ...]:
    function = sites.tree.function(cast)
    guards = function.decorator_list if function is not None else []
    known = _CAST if any(records_nothing(sites.tree.module, guard) for guard in guards) else frozenset[str]()
    if not is_same(sites, loop, cast, known):
        raise RefusedError("the gradients of its rounds would be summed in another dtype")
    return once_before(sites, loop, cast, _name_of(place), known)


def _name_of(place: str) -> str:
    return f"{place.split('.')[-1].strip('_') or 'weight'}_cast"


def _hoisted(sites: Sites, place: str, cast: ast.Call) -> tuple[Fix, ...]:
    """The conversion in front of the loop around it. Empty where that may give something else."""
    tree, function = sites.tree, sites.tree.function(cast)
    outer = next((loop for loop in tree.loops(cast)), None)
    if function is None or outer is None or not _only_read(sites, cast):
        return ()
    if not _needs_no_gradient(sites, function, place) or _is_written(sites, place):
        return ()
    dtypes = {n: _dtype_before(sites, function, outer, n) for a in _given(cast) for n in walk(a) if _is_dtype(n)}
    fixed = {n for n in walk(cast) if isinstance(n, ast.Name) and n.id in bound_in(outer)}
    replaced = {id(inner) for n, text in dtypes.items() if text is not None for inner in walk(n)}
    if any(id(n) not in replaced for n in fixed):
        return ()
    statement = tree.statement(outer)
    shared = aliases(function, place)
    if any(p is None or any(overlap(p, s) for s in shared) for _, p in changes(sites, statement)):
        return ()
    if not stands_alone(tree, statement) or tree.function(statement) is not function:
        return ()
    texts = {n: text for n, text in dtypes.items() if text is not None and isinstance(n, ast.expr)}
    name, edit = _taken_out(sites, function, place, cast)
    before = insert_before(tree, statement, [f"{name} = {splice(sites.source, cast, texts)}"])
    edits = checked(sites.source, [before, edit])
    return () if edits is None else (Fix("Convert it once before the loop", "safe", edits),)


def _taken_out(sites: Sites, function: Function, place: str, cast: ast.Call) -> tuple[str, Edit]:
    """The name that the converted weight gets before the loop, and what becomes of the conversion in it."""
    tree, statement = sites.tree, sites.tree.parent(cast)
    if isinstance(statement, ast.Assign) and stands_alone(tree, statement) and len(tree.block(statement)) > 1:
        return tree.text(statement.targets[0]), without_statement(sites, statement)
    name = sites.fresh_name(function, cast, _name_of(place))
    return name, replace_node(sites.source, cast, name)


def _given(cast: ast.Call) -> list[ast.expr]:
    return [*cast.args, *(keyword.value for keyword in cast.keywords)]


def _is_dtype(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "dtype"


def _dtype_before(sites: Sites, function: Function, loop: Looping, node: ast.AST) -> str | None:
    """How to ask in front of a loop for the dtype that `chunk.dtype` has in it, for pieces of one tensor."""
    assert isinstance(node, ast.Attribute)
    firsts = [] if isinstance(loop, ast.While) else [loop] if isinstance(loop, ast.stmt) else loop.generators[:1]
    for first in firsts:
        if dotted(node.value) != dotted(first.target) or not isinstance(first.target, ast.Name):
            continue
        if any(n.id == first.target.id and n is not first.target for n in _stored(loop)):
            return None
        whole = _whole(first.iter)
        if whole is not None:
            return f"{whole}.dtype"
        made = definition(sites.tree, function, first.iter.id) if isinstance(first.iter, ast.Name) else None
        # `split` and `chunk` give at least one piece.
        if made is not None and isinstance(made.targets[0], ast.Name) and _is_split(made.value):
            return f"{sites.tree.text(first.iter)}[0].dtype"
    return None


def _stored(loop: Looping) -> list[ast.Name]:
    return [n for n in walk(loop) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _is_split(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"split", "chunk"}


def _whole(iterable: ast.expr) -> str | None:
    """`x` for `x.split(4)`, `x.chunk(4)` and `x.unbind(1)`."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Attribute):
        place = dotted(iterable.func.value)
        if place not in {None, "torch"} and iterable.func.attr in {"split", "chunk", "unbind"}:
            return place
    return None


def _only_read(sites: Sites, cast: ast.expr) -> bool:
    """Whether a product or another operator reads the result, directly or through views, and nobody keeps it."""
    statement, function = sites.tree.parent(cast), sites.tree.function(cast)
    if not isinstance(statement, ast.Assign) or function is None:
        return _is_operand(sites, cast)
    name = dotted(statement.targets[0])
    if name is None or len(statement.targets) > 1 or len(bindings(function, name)) != 1:
        return False
    return all(_is_operand(sites, n) for n in walk(function) if n is not statement.targets[0] and dotted(n) == name)


def _is_operand(sites: Sites, node: ast.AST) -> bool:
    while True:
        parent = sites.tree.parent(node)
        if isinstance(parent, ast.BinOp):
            return True
        if isinstance(parent, ast.Attribute) and parent.attr in VIEW_ATTRIBUTES:
            node = parent
            continue
        call = sites.tree.parent(parent) if isinstance(parent, ast.Attribute) else parent
        if not isinstance(call, ast.Call):
            return False
        if isinstance(parent, ast.Attribute) and parent.attr in VIEWS:
            node = call
            continue
        if isinstance(parent, ast.Attribute) and call.func is parent and parent.value is node:
            return parent.attr in MATRIX_PRODUCTS
        name = (dotted(call.func) or "").split(".")[-1]
        return name in MATRIX_PRODUCTS | {"einsum", "embedding", "layer_norm"} and sites.cost(call) is not None


def _needs_no_gradient(sites: Sites, function: Function, place: str) -> bool:
    """Whether the weight is a buffer, frozen for good, or read where nothing records gradients.

    Those of all rounds would be summed in another dtype.
    """
    if any(records_nothing(sites.tree.module, decorator) for decorator in function.decorator_list):
        return True
    owner, name = sites.tree.owner(function), place.removeprefix("self.")
    for call in (n for n in walk(owner) if isinstance(n, ast.Call)) if owner is not None else ():
        if dotted(call.func) == "self.register_buffer" and call.args and _is_literal(call.args[0], name):
            return True
        made = sites.tree.parent(call)
        frozen = any(k.arg == "requires_grad" and getattr(k.value, "value", None) is False for k in call.keywords)
        if frozen and isinstance(made, ast.Assign) and [dotted(t) for t in made.targets] == [place]:
            return not any("requires_grad_" in source.text for source in sites.context.sources.values())
    return False


def _is_literal(node: ast.expr, value: str) -> bool:
    return isinstance(node, ast.Constant) and node.value == value


def _is_written(sites: Sites, place: str) -> bool:
    """Whether a function that ran in the forward may write to a weight of this name."""
    leaf = place.split(".")[-1]
    return any(
        p is not None and (leaf in p.split(".") or any(overlap(p, s) for s in aliases(function, place)))
        for function in ran_functions(sites.context)
        for _, p in dataflow.changes(function)
    )


def _value(sites: Sites, place: str, found: list[tuple[ast.Call, ExpressionCost]]) -> Match:
    ordered = sorted(found, key=lambda item: (item[0].lineno, item[0].col_offset))
    share = sum(c.share for _, c in ordered)
    calls = sum(c.calls for _, c in ordered)
    others = tuple(Related(sites.source.span(n), "the same conversion") for n, _ in ordered[1:])
    return Match(
        sites.source.span(ordered[0][0]),
        f"`{place}` is converted {_from_to(ordered[0][1])} {times(calls)} in one forward, {percent(share)} of it: "
        "convert it once under a name of its own",
        share,
        {"calls": calls},
        others,
    )
