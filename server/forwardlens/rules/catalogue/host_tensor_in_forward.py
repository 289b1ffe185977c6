"""A tensor made on the host in every forward and then moved to the device."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar

import libcst as cst

from forwardlens.model import Edit, Fix
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of, times
from forwardlens.rules.operations import is_torch_function
from forwardlens.source.dataflow import definition
from forwardlens.source.rewrite import (
    change_text,
    checked,
    has_comment,
    offsets,
    replace_node,
    replace_statements,
    stands_alone,
    with_keyword,
    without_argument,
)
from forwardlens.source.tree import dotted, integer, walk

# On a CPU, making a tensor that takes less of the forward than this is worth a hint only.
_VISIBLE_SHARE = 0.02
# Their result has no random state and no rounding that differs between devices.
_EXACT = frozenset({"arange", "zeros", "ones", "full", "empty", "eye"})


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
    The fix is offered as safe for `arange`, `zeros`, `ones`, `full`, `empty` and `eye`, whose values are the same on
    every device. Random tensors are not reported: each device has a generator of its own and would give other numbers.
    """

    name: ClassVar[str] = "host-tensor-in-forward"
    summary: ClassVar[str] = "A tensor made on the host, then moved to the device"
    # The cost is the wait on a device, which a run on a CPU cannot show.
    threshold_factor: ClassVar[float] = 0.0
    examples: ClassVar[tuple[Example, ...]] = (
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


def _match(sites: Sites, move: ast.Call) -> Match | None:
    """`move` is a `.to(...)` or `.cuda()` call whose tensor was just made on the host."""
    device = _device_of(sites, move)
    made = _creation(sites, move) if device is not None else None
    if device is None or made is None:
        return None
    cost = sites.cost(made)
    name = made.func.attr if isinstance(made.func, ast.Attribute) else ""
    if cost is None or not cost.op_calls(f"aten::{name}"):
        return None
    share = sites.share(made, move)
    on_device = sites.context.profile.environment.device != "cpu"
    fix = _fix(sites, move, made, device)
    text = f"`torch.{name}` makes its tensor on the host, {times(cost.calls)} in one forward, and then moves it"
    told = f"{percent(share)} of it" if on_device else "free on a CPU, a copy and a wait on a GPU"
    return Match(
        sites.source.span(move),
        f"{text} to the device: {told}",
        share,
        {"calls": cost.calls, "device": sites.context.profile.environment.device},
        (),
        (fix,) if fix is not None else (),
        None if on_device else "info" if share >= _VISIBLE_SHARE else "hint",
    )


def _creation(sites: Sites, move: ast.Call) -> ast.Call | None:
    """The creation that `move` moves: in the same expression, or the only value of the name that it moves."""
    if not isinstance(move.func, ast.Attribute):
        return None
    made: ast.expr | None = move.func.value
    if isinstance(made, ast.Name):
        made = _only_value(sites, move, made.id)
    if not isinstance(made, ast.Call) or not isinstance(made.func, ast.Attribute) or made.func.attr not in _EXACT:
        return None
    given = {keyword.arg for keyword in made.keywords}
    if not is_torch_function(sites.tree.module, made.func) or given & {"device", "out", "pin_memory", None}:
        return None
    return made


def _only_value(sites: Sites, move: ast.Call, name: str) -> ast.expr | None:
    """What the moved name was made from, if the move is all that reads it."""
    function = sites.tree.function(move)
    if function is None:
        return None
    here = sites.tree.parent(move)
    if isinstance(here, ast.Assign) and [dotted(t) for t in here.targets] == [name]:
        # `steps = steps.to(device)`: what it was made from has to stand right above.
        block = sites.tree.block(here)
        above = block[block.index(here) - 1] if block.index(here) else None
        made = isinstance(above, ast.Assign) and [dotted(t) for t in above.targets] == [name]
        return above.value if made and isinstance(above, ast.Assign) else None
    statement = definition(sites.tree, function, name)
    return statement.value if statement is not None and _reads(function, name) == 1 else None


def _reads(function: ast.AST, name: str) -> int:
    return sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(function))


def _device_of(sites: Sites, move: ast.Call) -> str | None:
    """The text of the device that `.to(...)` or `.cuda(...)` moves to, if it certainly is one."""
    if not isinstance(move.func, ast.Attribute):
        return None
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


def _fix(sites: Sites, move: ast.Call, made: ast.Call, device: str) -> Fix | None:
    source = sites.source
    with_device = change_text(
        sites.tree.text(made), lambda call: with_keyword(call, "device", device) if isinstance(call, cst.Call) else call
    )
    assert isinstance(move.func, ast.Attribute)
    rest = _rest_of_move(sites.tree.text(move), move)
    if rest is None:
        return None
    value = move.func.value
    if value is made:
        if has_comment(source, offsets(source, made)[1], offsets(source, move)[1]):
            return None
        edits = checked(source, [replace_node(source, move, with_device + rest)])
    else:
        edits = checked(source, [replace_node(source, made, with_device), _without_move(sites, move, value, rest)])
    return None if edits is None else Fix("Make the tensor on the device", "safe", edits)


def _without_move(sites: Sites, move: ast.Call, value: ast.expr, rest: str) -> Edit:
    """Put the moved name in the move's place, or nothing at all where that leaves `steps = steps`."""
    statement = sites.tree.parent(move)
    if isinstance(statement, ast.Assign) and not rest and stands_alone(sites.tree, statement):
        same = [dotted(target) for target in statement.targets] == [dotted(value)]
        if same and "#" not in sites.source.line(statement.lineno):
            return replace_statements(sites.tree, [statement], [])
    return replace_node(sites.source, move, sites.tree.text(value) + rest)


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
