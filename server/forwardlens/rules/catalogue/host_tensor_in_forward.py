"""A tensor made on the host in every forward and then moved to the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import libcst as cst

from forwardlens.model import Edit, Fix
from forwardlens.rules.callers import arguments_of, is_static, own_function
from forwardlens.rules.constants import is_number
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of, times
from forwardlens.rules.operations import ELEMENTWISE, MATRIX_PRODUCTS, is_torch_function
from forwardlens.rules.starts import last_binding
from forwardlens.source.dataflow import bindings, names_bound, names_read, names_used
from forwardlens.source.rewrite import (
    change_text,
    checked,
    has_comment,
    offsets,
    replace_node,
    replace_statements,
    splice,
    stands_alone,
    with_keyword,
    without_argument,
)
from forwardlens.source.tree import Function, argument, dotted, integer, tree_of, walk

# On a CPU, making a tensor that takes less of the forward than this is worth a hint only.
_VISIBLE_SHARE = 0.02
# Their result has no random state and no rounding that differs between devices.
_EXACT = frozenset({"arange", "zeros", "ones", "full", "empty", "eye", "linspace"})
_ROUNDED = frozenset({"logspace"})
# Neither have these.
_EXACT_STEPS = frozenset(
    """view reshape flatten unsqueeze squeeze repeat tile expand transpose permute t flip contiguous clone tril triu
    float double half bfloat16 long int bool""".split()
)
_ROUNDED_STEPS = (
    (ELEMENTWISE | MATRIX_PRODUCTS | {"einsum", "outer", "cumsum"}) - _EXACT_STEPS - {"to", "type", "type_as"}
)
_TOGETHER = frozenset({"cat", "concat", "stack", "meshgrid"})

# What `aten::to` is given where Python names both: the tensor, the two, and three options.
_DEVICE_AND_DTYPE = 6


class HostTensorInForward(Rule):
    """## What it does
    Finds `torch.arange(n).to(x.device)` and the like: a tensor with known contents that is made on the host and moved
    to a device in every forward.

    ## Why it costs
    On a GPU each move is a copy over the bus, and from ordinary memory it makes the host wait until the device has
    caught up. Made with `device=` the tensor never leaves the device. On a CPU the move costs nothing, so there the
    finding only says what a GPU would pay.

    ## When to ignore it
    When the program never runs on a GPU.

    ## Fix safety
    The fix is offered as safe for `arange` in whole steps, `linspace`, `zeros`, `ones`, `full`, `empty` and `eye`,
    whose values are the same on every device, and for what is made of them by shape, casts, joins, sums and products.
    A function of the file that makes them is given the device; one without a parameter for it gets one, and makes its
    tensors where it did for every other call. A division, a sine, `logspace` and `arange` in fractions round
    differently, and are explained only. Random tensors are not reported: each device has a generator of its own and
    would give other numbers.
    """

    name: ClassVar[str] = "host-tensor-in-forward"
    summary: ClassVar[str] = "A tensor made on the host, then moved to the device"
    # The cost is the wait on a device, which a run on a CPU cannot show.
    threshold_factor: ClassVar[float] = 0.0
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "like-another-tensor",
            """\
import torch
from torch import nn


class Grid(nn.Module):
    def forward(self, x):
        grid = torch.zeros(len(x), 40).to(x)  #!
        steps = torch.arange(40).type_as(x)  #!
        return grid.add_(steps) + x


def build():
    return Grid(), (torch.randn(4, 40, dtype=torch.float64),)
""",
            """\
import torch
from torch import nn


class Grid(nn.Module):
    def forward(self, x):
        grid = torch.zeros(len(x), 40, device=x.device, dtype=x.dtype)
        steps = torch.arange(40, device=x.device).to(x.dtype)
        return grid.add_(steps) + x


def build():
    return Grid(), (torch.randn(4, 40, dtype=torch.float64),)
""",
        ),
        Example(
            "arange",
            """\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Embedding(64, 8)

    def forward(self, x):
        steps = torch.arange(x.size(1)).to(x.device)  #!
        return x + self.place(steps)


def build():
    return Positions(), (torch.randn(4, 24, 8),)
""",
            """\
import torch
from torch import nn


class Positions(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Embedding(64, 8)

    def forward(self, x):
        steps = torch.arange(x.size(1), device=x.device)
        return x + self.place(steps)


def build():
    return Positions(), (torch.randn(4, 24, 8),)
""",
        ),
        Example(
            "keeps-the-dtype",
            """\
import torch
from torch import nn


class Ramp(nn.Module):
    def forward(self, x):
        ramp = torch.arange(
            x.size(1),  # one for each step
        ).to(device=x.device, dtype=x.dtype, non_blocking=True)  #!
        blank = torch.zeros(x.size(1), dtype=x.dtype)
        return x * ramp + blank.to(x.device)  #!


def build():
    return Ramp(), (torch.randn(4, 24),)
""",
            """\
import torch
from torch import nn


class Ramp(nn.Module):
    def forward(self, x):
        ramp = torch.arange(
            x.size(1),  # one for each step
            device=x.device,
        ).to(dtype=x.dtype)
        blank = torch.zeros(x.size(1), dtype=x.dtype, device=x.device)
        return x * ramp + blank


def build():
    return Ramp(), (torch.randn(4, 24),)
""",
        ),
        Example(
            "grid",
            """\
import torch
from torch import nn


class Grid(nn.Module):
    def forward(self, depth):
        b, _, h, w = depth.shape
        u = torch.arange(0, w).view(1, 1, 1, w).repeat(b, 1, h, 1)
        v = torch.arange(0, h).view(1, 1, h, 1).repeat(b, 1, 1, w)
        grid = torch.cat((u, v), dim=1).float().to(depth.device)  #!
        y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        both = torch.stack((x, y), dim=-1) + 0.5
        both = both.reshape(-1, 2).to(depth.device)  #!
        return grid * depth, both, torch.ones(h, w)[None].to(depth.device)  #!


def build():
    return Grid(), (torch.rand(2, 1, 12, 16),)
""",
            """\
import torch
from torch import nn


class Grid(nn.Module):
    def forward(self, depth):
        b, _, h, w = depth.shape
        u = torch.arange(0, w, device=depth.device).view(1, 1, 1, w).repeat(b, 1, h, 1)
        v = torch.arange(0, h, device=depth.device).view(1, 1, h, 1).repeat(b, 1, 1, w)
        grid = torch.cat((u, v), dim=1).float()
        y, x = torch.meshgrid(torch.arange(h, device=depth.device), torch.arange(w, device=depth.device), indexing="ij")
        both = torch.stack((x, y), dim=-1) + 0.5
        both = both.reshape(-1, 2)
        return grid * depth, both, torch.ones(h, w, device=depth.device)[None]


def build():
    return Grid(), (torch.rand(2, 1, 12, 16),)
""",
        ),
        Example(
            "made-by-a-function",
            """\
import torch
from torch import nn


class Warp(nn.Module):
    @staticmethod
    def grid(height, width):
        ys = torch.linspace(-1, 1, height)
        xs = torch.linspace(-1, 1, width)
        return torch.stack((xs.expand(height, width), ys[:, None].expand(height, width)), dim=-1)

    def offsets(self, n, where=None):
        return torch.zeros(n, 2, device=where) + torch.ones(2)

    def forward(self, x):
        places = self.grid(12, 16)
        places = places.to(x.device)  #!
        shift = self.offsets(12).to(x.device)  #!
        return x[..., None] + places + shift[:, None]


def build():
    return Warp(), (torch.rand(12, 16),)
""",
            """\
import torch
from torch import nn


class Warp(nn.Module):
    @staticmethod
    def grid(height, width, device=None):
        ys = torch.linspace(-1, 1, height, device=device)
        xs = torch.linspace(-1, 1, width, device=device)
        return torch.stack((xs.expand(height, width), ys[:, None].expand(height, width)), dim=-1)

    def offsets(self, n, where=None):
        return torch.zeros(n, 2, device=where) + torch.ones(2, device=where)

    def forward(self, x):
        places = self.grid(12, 16, device=x.device)
        shift = self.offsets(12, where=x.device)
        return x[..., None] + places + shift[:, None]


def build():
    return Warp(), (torch.rand(12, 16),)
""",
        ),
        Example(
            "function-that-reads-or-draws",
            """\
import torch
from torch import nn


def steps(n):
    made = torch.arange(n)
    return made, made.sum().item()


def tail(n):
    made = torch.arange(n)
    return made.float() * made[-1].item()


class Places(nn.Module):
    def noise(self, n):
        return torch.arange(n) + torch.randn(n)

    def forward(self, x):
        n = x.size(1)
        return x + steps(n)[0].to(x.device) + tail(n).to(x.device) + self.noise(n).to(x.device)


def build():
    return Places(), (torch.randn(4, 24),)
""",
        ),
        Example(
            "rounded-or-read-on-the-host",
            """\
import torch
from torch import nn


class Grid(nn.Module):
    def forward(self, x):
        n = x.size(1)
        across = torch.logspace(-1, 1, n).view(1, n).to(x.device)  #!
        down = ((torch.arange(n) + 0.5) / n).to(x.device)  #!
        steps = torch.arange(n).float()
        total = steps.sum().item()
        mixed = torch.cat((torch.arange(n), x[0].cpu())).to(x.device)
        return x * across + down + steps.to(x.device) / total, mixed


def build():
    return Grid(), (torch.randn(4, 24),)
""",
        ),
        Example(
            "random",
            """\
import torch
from torch import nn


class Noisy(nn.Module):
    def forward(self, x):
        return x + torch.randn(x.shape).to(x.device)


def build():
    return Noisy(), (torch.randn(4, 24),)
""",
        ),
        Example(
            "made-on-the-device",
            """\
import torch
from torch import nn


class Positions(nn.Module):
    def forward(self, x):
        return x + torch.arange(x.size(1), device=x.device).to(x.dtype)


def build():
    return Positions(), (torch.randn(4, 24),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node in walk(sites.tree.module):
            if isinstance(node, ast.Call):
                match = _match(sites, node)
                if match is not None:
                    yield match


@dataclass
class _Made:
    """What a moved tensor is made of: `creations` on the host, and `values`, the expressions that lead from them to it.

    `statements` bind the names that are `read` on the way, and `entered` are the functions that it leads through, each
    with its call. `why` says what would give other numbers on a device: also where numbers are `computed` with that
    may be `narrow`, of 16 bits.
    """

    creations: list[ast.Call] = field(default_factory=list[ast.Call])
    values: list[ast.expr] = field(default_factory=list[ast.expr])
    statements: list[ast.Assign] = field(default_factory=list[ast.Assign])
    read: list[ast.Name] = field(default_factory=list[ast.Name])
    entered: dict[Function, ast.Call] = field(default_factory=dict[Function, ast.Call])
    why: str = ""
    narrow: bool = False
    computed: bool = False


def _match(sites: Sites, move: ast.Call) -> Match | None:
    """`move` is a `.to(...)` or `.cuda()` call whose tensor was just made on the host."""
    device = _device_of(sites, move)
    if device is None or not isinstance(move.func, ast.Attribute):
        return None
    made = _Made()
    if not _follow(sites, move.func.value, made) or not made.creations or not _is_all_moved(sites, move, made):
        return None
    costs = [sites.cost(creation) for creation in made.creations]
    names = [_name(creation) for creation in made.creations]
    if not all(c is not None and c.op_calls(f"aten::{n}") for c, n in zip(costs, names, strict=True)):
        return None
    calls = max(cost.calls for cost in costs if cost is not None)
    share = sites.share(*made.values, move)
    on_device = sites.context.profile.environment.device != "cpu"
    if made.narrow and made.computed:
        made.why = "what is computed with 16 bits may not round the same on every device"
    fix, why = _fix(sites, move, made, device) if not made.why else (None, made.why)
    told = f"{percent(share)} of it" if on_device else "free on a CPU, a copy and a wait on a GPU"
    message = f"{_counted(names)} on the host, {times(calls)} in one forward, and {_moved(names)} to the device: {told}"
    return Match(
        sites.source.span(move),
        message if fix is not None else f"{message}. No automatic fix: {why}",
        share,
        {"calls": calls, "device": sites.context.profile.environment.device},
        (),
        (fix,) if fix is not None else (),
        None if on_device else "info" if share >= _VISIBLE_SHARE else "hint",
    )


def _counted(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"`torch.{names[0]}` makes its tensor"
    return f"{len(names)} tensors are made by {' and '.join(f'`torch.{name}`' for name in dict.fromkeys(names))}"


def _moved(names: Sequence[str]) -> str:
    return "then moves it" if len(names) == 1 else "what comes of them is then moved"


def _name(creation: ast.Call) -> str:
    return creation.func.attr if isinstance(creation.func, ast.Attribute) else ""


# -- what the moved tensor is made of


def _follow(sites: Sites, node: ast.expr, made: _Made) -> bool:
    """Add what `node` is made of to `made`. False if anything else than what is made on the host has a part in it."""
    if isinstance(node, ast.Name):
        return _follow_name(sites, node, made)
    if isinstance(node, ast.Subscript):
        plain = all(isinstance(n, (ast.Slice, ast.Constant, ast.UnaryOp)) for n in index_items(node))
        return plain and _follow(sites, node.value, made)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _follow(sites, node.operand, made)
    if isinstance(node, ast.BinOp):
        return _follow_both(sites, node, made)
    if isinstance(node, (ast.Tuple, ast.List)):
        return all(_follow(sites, element, made) for element in node.elts)
    function = own_function(sites, node) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and function is not None:
        return _follow_into(sites, node, function, made)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return _follow_call(sites, node, node.func, made)


def _follow_into(sites: Sites, call: ast.Call, function: Function, made: _Made) -> bool:
    """Follow what a function of the file gives, if it always ends in the same place."""
    last = function.body[-1]
    returns = [n for n in walk(function) if isinstance(n, (ast.Return, ast.Yield, ast.YieldFrom))]
    plain = isinstance(function, ast.FunctionDef) and (not function.decorator_list or is_static(function))
    if not plain or returns != [last] or not isinstance(last, ast.Return) or last.value is None:
        return False
    if function in made.entered or arguments_of(function, call) is None:
        return False
    made.entered[function] = call
    return _follow(sites, last.value, made)


def _argument(sites: Sites, node: ast.expr, made: _Made) -> ast.expr | None:
    """What the call that led into a function gives the parameter that `node` reads there."""
    function = sites.tree.function(node)
    call = made.entered.get(function) if function is not None else None
    if call is None or function is None or not isinstance(node, ast.Name) or len(bindings(function, node.id)) != 1:
        return None
    return (arguments_of(function, call) or {}).get(node.id)


def _is_nowhere(sites: Sites, device: ast.expr, made: _Made) -> bool:
    """Whether a `device` is None, so that a tensor is made on the host."""
    given = _argument(sites, device, made) or device
    return isinstance(given, ast.Constant) and given.value is None


def _follow_call(sites: Sites, node: ast.Call, func: ast.Attribute, made: _Made) -> bool:
    given = {k.arg for k in node.keywords if k.arg != "device" or not _is_nowhere(sites, k.value, made)}
    if given & {"device", "out", "pin_memory", "requires_grad", None}:
        return False
    function, name = is_torch_function(sites.tree.module, func), func.attr
    made.narrow |= name in {"half", "bfloat16", "to", "type"} or "dtype" in given
    if function and name in _EXACT | _ROUNDED:
        made.creations.append(node)
        made.values.append(node)
        if name in _ROUNDED or (name == "arange" and _counts_in_fractions(node)):
            made.why = f"`{name}` does not round the same on every device"
        return True
    if function and name in _TOGETHER:
        parts = node.args if name == "meshgrid" else node.args[:1]
        return bool(parts) and all(_follow(sites, part, made) for part in parts)
    if name in _ROUNDED_STEPS:
        made.why = f"`{name}` may not round the same on every device"
        parts = node.args if function else [func.value, *node.args]
        return _follow_all(sites, parts, made)
    if name not in _EXACT_STEPS and not (name in {"to", "type"} and _is_cast(node)):
        return False
    return _follow(sites, node.args[0] if function and node.args else func.value, made)


def _counts_in_fractions(call: ast.Call) -> bool:
    """Whether the start or the step of `arange` is not plainly a whole number; the end may be anything."""
    given = [argument(call, 0, "start") if len(call.args) != 1 else None, argument(call, 2, "step")]
    inner = [n for part in given if part is not None for n in walk(part)]
    return any(
        isinstance(n, ast.Div) or (isinstance(n, ast.Constant) and isinstance(n.value, float) and n.value % 1)
        for n in inner
    )


def _is_cast(call: ast.Call) -> bool:
    """`.to(torch.float32)`, `.to(dtype=x.dtype)`."""
    given = [*call.args, *(k.value for k in call.keywords)]
    return len(given) == 1 and _is_dtype(given[0])


def _is_dtype(node: ast.expr) -> bool:
    place = dotted(node) or ""
    return place.startswith("torch.") or place.endswith(".dtype")


def _follow_both(sites: Sites, node: ast.BinOp, made: _Made) -> bool:
    if not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div)):
        return False
    made.computed = True
    if isinstance(node.op, ast.Div):
        made.why = "a division does not round the same on every device"
    return _follow_all(sites, (node.left, node.right), made)


def _follow_all(sites: Sites, parts: Sequence[ast.expr], made: _Made) -> bool:
    """Follow those of `parts` that are not numbers or text; False if all are."""
    tensors = [part for part in parts if not _is_plain(sites, part, made)]
    return bool(tensors) and all(_follow(sites, part, made) for part in tensors)


def _is_plain(sites: Sites, node: ast.expr, made: _Made) -> bool:
    given = _argument(sites, node, made) or node
    return is_number(sites.tree, given) or isinstance(given, ast.Constant)


def _follow_name(sites: Sites, node: ast.Name, made: _Made) -> bool:
    argument = _argument(sites, node, made)
    if argument is not None:
        made.why = made.why or "it leads through several functions"
        return _follow(sites, argument, made)
    statement = last_binding(sites, sites.tree.statement(node), node.id)
    made.read.append(node)
    if statement in made.statements:
        return True
    if isinstance(statement, ast.If):
        return _follow_branches(sites, node, made)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    made.statements.append(statement)
    made.values.append(statement.value)
    target = statement.targets[0]
    if isinstance(target, (ast.Tuple, ast.List)):
        grid = isinstance(statement.value, ast.Call) and _name(statement.value) == "meshgrid"
        plain = all(isinstance(element, ast.Name) for element in target.elts)
        return grid and plain and _follow(sites, statement.value, made)
    return isinstance(target, ast.Name) and _follow(sites, statement.value, made)


def _follow_branches(sites: Sites, node: ast.Name, made: _Made) -> bool:
    """Follow everything that a name may be bound to where a test decides it."""
    function = sites.tree.function(node)
    stores = bindings(function, node.id) if function is not None else []
    statements = [sites.tree.parent(store) for store in stores]
    made.why = made.why or "a test decides what is moved"
    for store, statement in zip(stores, statements, strict=True):
        if not isinstance(statement, ast.Assign) or statement.targets != [store]:
            return False
        if statement not in made.statements:
            made.statements.append(statement)
            made.values.append(statement.value)
            if not _follow(sites, statement.value, made):
                return False
    return bool(stores)


def _is_all_moved(sites: Sites, move: ast.Call, made: _Made) -> bool:
    """Whether nothing but the move reads what it is made of: what stays on the host must not become another tensor."""
    function, again = sites.tree.function(move), any(True for _ in sites.tree.loops(move))
    if function is None or not _is_only_followed(sites, function, made, again):
        return False
    return all(_is_only_followed(sites, inner, made, again=False) for inner in made.entered)


def _is_only_followed(sites: Sites, function: Function, made: _Made, again: bool) -> bool:
    """Whether a function reads the names on the way for nothing else; nor in another round, if it runs `again`."""
    own = [statement for statement in made.statements if sites.tree.function(statement) is function]
    names = {n for statement in own for n in names_bound(statement.targets[0])}
    known = {id(read) for read in made.read}
    others = [
        n
        for n in walk(function)
        if isinstance(n, ast.Name) and n.id in names and isinstance(n.ctx, ast.Load) and id(n) not in known
    ]
    return not (again and others) and not any(_may_read(sites, other, made) for other in others)


def _may_read(sites: Sites, name: ast.Name, made: _Made) -> bool:
    statement = last_binding(sites, sites.tree.statement(name), name.id)
    return not isinstance(statement, ast.Assign) or statement in made.statements


def _device_of(sites: Sites, move: ast.Call) -> str | None:
    """The text of the device that `.to(...)` or `.cuda(...)` moves to, if it certainly is one."""
    if not isinstance(move.func, ast.Attribute):
        return None
    like = _like(sites, move)
    if like is not None:
        return f"{sites.tree.text(like)}.device"
    if move.func.attr == "cuda":
        if not move.args and not move.keywords:
            return '"cuda"'
        number = integer(move.args[0]) if len(move.args) == 1 and not move.keywords else None
        return None if number is None else f'"cuda:{number}"'
    if move.func.attr != "to":
        return None
    given = next((k.value for k in move.keywords if k.arg == "device"), None)
    if given is None and move.args and _is_device(move.args[0]):
        given = move.args[0]
    return None if given is None else sites.tree.text(given)


def _like(sites: Sites, move: ast.Call) -> ast.expr | None:
    """`x` of `.to(x)` and `.type_as(x)`, where the run saw a tensor: its device and its dtype are taken."""
    op = sites.op(move, "aten::to", "aten::type_as")
    if op is None or len(move.args) != 1 or move.keywords or dotted(move.args[0]) is None:
        return None
    # `.to` gives its operator both, taken from the tensor; a device or a dtype alone is an operator of another kind.
    return move.args[0] if op.name == "aten::type_as" or len(op.shapes) == _DEVICE_AND_DTYPE else None


def _is_device(node: ast.expr) -> bool:
    """`x.device`, `device`, `self.device`, `"cuda"`, `torch.device(...)`; other moves name a tensor or a dtype."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    if isinstance(node, ast.Call):
        return (dotted(node.func) or "").split(".")[-1] == "device"
    name = (dotted(node) or "").split(".")[-1]
    return (
        name in {"device", "dev"}
        or name.endswith("_device")
        or (isinstance(node, ast.Attribute) and node.attr == "device")
    )


def _fix(sites: Sites, move: ast.Call, made: _Made, device: str) -> tuple[Fix | None, str]:
    source = sites.source
    assert isinstance(move.func, ast.Attribute)
    value, like = move.func.value, _like(sites, move)
    dtype = None if like is None else f"{sites.tree.text(like)}.dtype"
    rest = _rest_of_move(sites.tree.text(move), move) if dtype is None else f".to({dtype})"
    if rest is None:
        return None, "it is not plain what the move does besides"
    if has_comment(source, offsets(source, value)[1], offsets(source, move)[1]):
        return None, "a comment stands inside it"
    if not _is_known_before(sites, move, made):
        return None, f"`{device}` may be another device where the tensor is made"
    options = {"device": device}
    if dtype is not None and made.creations == [value] and _is_same_in_any_dtype(value):
        options["dtype"], rest = dtype, ""
    texts: dict[ast.expr, str] = {creation: _with_options(sites, creation, options) for creation in made.creations}
    added: list[Edit] = []
    if made.entered:
        handed = _handed_on(sites, move, made, device)
        if handed is None:
            return None, "it leads through a function that cannot plainly be given a device"
        texts, added = handed
    inside = {creation: text for creation, text in texts.items() if any(creation is n for n in walk(value))}
    outside = [replace_node(source, creation, text) for creation, text in texts.items() if creation not in inside]
    edits = checked(source, [*outside, *added, _without_move(sites, move, value, splice(source, value, inside), rest)])
    return (Fix("Make the tensor on the device", "safe", edits), "") if edits else (None, "the text does not allow it")


def _is_same_in_any_dtype(creation: ast.expr) -> bool:
    """Whether a tensor has the same values if it is made in another dtype, of which none is given yet."""
    given = isinstance(creation, ast.Call) and any(k.arg == "dtype" for k in creation.keywords)
    return isinstance(creation, ast.Call) and _name(creation) in {"zeros", "ones"} and not given


def _with_options(sites: Sites, creation: ast.Call, options: Mapping[str, str]) -> str:
    text = sites.tree.text(creation)
    for name, value in options.items():
        text = _with_option(text, name, value)
    return text


def _with_option(text: str, name: str, value: str) -> str:
    return change_text(text, lambda call: with_keyword(call, name, value) if isinstance(call, cst.Call) else call)


def _is_known_before(sites: Sites, move: ast.Call, made: _Made) -> bool:
    """Whether the names in the device mean the same where the tensors are made."""
    function = sites.tree.function(move)
    places = [*made.creations, *made.entered.values()]
    first = min(place.lineno for place in places if sites.tree.function(place) is function)
    device = [*move.args, *(k.value for k in move.keywords)]
    for name in {n for part in device for n in names_read(part)}:
        lines = [b.lineno for b in bindings(function, name) if isinstance(b, (ast.arg, ast.Name))] if function else []
        if any(first <= line < move.lineno for line in lines) or (lines and min(lines) > first):
            return False
    return True


def _handed_on(sites: Sites, move: ast.Call, made: _Made, device: str) -> tuple[dict[ast.expr, str], list[Edit]] | None:
    """The texts of a call that is given the device, and of the tensors that its function then makes there.

    And a parameter for it, where the function has none: other calls make their tensors where they did.
    """
    (function, call), *others = made.entered.items()
    inside = all(sites.tree.function(creation) is function for creation in made.creations)
    if others or not inside or sites.tree.function(call) is not sites.tree.function(move):
        return None
    given = {
        k.value.id for c in made.creations for k in c.keywords if k.arg == "device" and isinstance(k.value, ast.Name)
    }
    name = next(iter(given), "device")
    added = [] if given else _with_parameter(sites, function, name)
    if added is None or len(given) > 1 or not _only_says_where(function, name, made):
        return None
    own = (arguments_of(function, call) or {}).get(name)
    replaced = own if own is not None and any(own is n for n in walk(call)) else None
    text = _with_option(sites.tree.text(call), name, device)
    texts: dict[ast.expr, str] = {call: text if replaced is None else splice(sites.source, call, {replaced: device})}
    bare = [c for c in made.creations if not any(k.arg == "device" for k in c.keywords)]
    return {**texts, **{c: _with_option(sites.tree.text(c), "device", name) for c in bare}}, added


def _with_parameter(sites: Sites, function: Function, name: str) -> list[Edit] | None:
    """A last parameter `name=None` for a function that nothing else can stand for."""
    spec = function.args
    trees = (tree_of(source) for source in sites.context.sources.values())
    same = [f for tree in trees if tree is not None for f in tree.functions() if f.name == function.name]
    if len(same) != 1 or name in names_used(function) or not spec.args or spec.posonlyargs:
        return None
    if spec.vararg or spec.kwonlyargs or spec.kwarg:
        return None
    last = spec.defaults[-1] if spec.defaults else spec.args[-1]
    span = sites.source.span(last)
    at = (span.end_line, span.end_column)
    return [Edit(sites.source.path, at, at, f", {name}=None")]


def _only_says_where(function: Function, name: str, made: _Made) -> bool:
    """Whether a parameter is read as the device of tensors on the way, and for nothing else."""
    places = {k.value for creation in made.creations for k in creation.keywords if k.arg == "device"}
    return all(read in places for read in walk(function) if isinstance(read, ast.Name) and read.id == name)


def _without_move(sites: Sites, move: ast.Call, value: ast.expr, text: str, rest: str) -> Edit:
    """Put what was moved in the move's place, or nothing at all where that leaves `steps = steps`."""
    statement = sites.tree.parent(move)
    if isinstance(statement, ast.Assign) and not rest and stands_alone(sites.tree, statement):
        same = isinstance(value, ast.Name) and [dotted(target) for target in statement.targets] == [dotted(value)]
        if same and "#" not in sites.source.line(statement.lineno):
            return replace_statements(sites.tree, [statement], [])
    return replace_node(sites.source, move, text + rest)


def _rest_of_move(text: str, move: ast.Call) -> str | None:
    """What is left of the `.to(...)` once the device is gone: `.to(dtype)`, or nothing."""
    others = move.args[1:]
    keywords = [k for k in move.keywords if k.arg not in {"device", "non_blocking", "copy"}]
    if isinstance(move.func, ast.Attribute) and move.func.attr == "cuda":
        return ""
    positional = not any(k.arg == "device" for k in move.keywords)
    if len(others) > 1 if positional else move.args:
        return None
    if not others and not keywords:
        return ""
    call = cst.parse_expression(f"({text})")
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
        return None
    for name in ("device", "non_blocking", "copy"):
        call = without_argument(call, 0 if name == "device" and positional else None, name)
    code = cst.Module(body=[]).code_for_node
    return f".to({''.join(code(arg) for arg in call.args)})"
