"""A tensor copied several times over for readers that would broadcast it."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from typing import ClassVar

from forwardlens.model import Evidence, Fix, Shape
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.grouped_heads import advice, folded, is_spread, readers_of
from forwardlens.rules.layout import LayoutMattersError, LayoutReaders, require_no_writes
from forwardlens.rules.operations import is_torch_function
from forwardlens.source.rewrite import checked, has_comment, offsets, replace_node
from forwardlens.source.tree import argument, integer, keyword_name, walk


class RepeatMaterialized(Rule):
    """## What it does
    Finds `repeat`, `tile` and `repeat_interleave` along dimensions of size 1, read only by operators that broadcast,
    and key or value heads that are repeated for the query heads of their group, read only by products.

    ## Why it costs
    Each repetition is written to memory and read back. `expand` gives a view of the same shape in which all
    repetitions are one memory; it copies nothing.

    ## When to ignore it
    When the copies are written to: that is not reported. A matrix product of an expanded tensor may copy it inside;
    then there is nothing to gain, which trying the fix shows. For heads that is always so, and the query heads of a
    group are put below each other instead: one product with more rows, of the heads as they are.

    ## Fix safety
    The fix is offered as safe if the run saw size 1 in every dimension that is repeated, all readers are known and
    work on any memory layout, nothing writes to the copy or to what it was made from, and it does not leave the
    function except through arithmetic.
    """

    name: ClassVar[str] = "repeat-materialized"
    summary: ClassVar[str] = "Repetitions written to memory for readers that broadcast"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "rows-for-every-sample",
            """\
import torch
from torch import nn


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.rand(1, 64, 32))

    def forward(self, x):
        place = self.place.repeat(x.size(0), 1, 1)  #!
        return (x + place).sum(dim=1)


def build():
    return Shift(), (torch.rand(16, 64, 32),)
""",
            """\
import torch
from torch import nn


class Shift(nn.Module):
    def __init__(self):
        super().__init__()
        self.place = nn.Parameter(torch.rand(1, 64, 32))

    def forward(self, x):
        place = self.place.expand(x.size(0), -1, -1)
        return (x + place).sum(dim=1)


def build():
    return Shift(), (torch.rand(16, 64, 32),)
""",
        ),
        Example(
            "all-pairs",
            """\
import torch
from torch import nn


class Pairs(nn.Module):
    def forward(self, x):
        n = x.size(0)
        a = torch.tile(x.unsqueeze(1), (1, n, 1))  #!
        b = x.unsqueeze(0).repeat_interleave(n, dim=0)  #!
        return (a - b).abs().sum(dim=-1)


def build():
    return Pairs(), (torch.rand(64, 32),)
""",
            """\
import torch
from torch import nn


class Pairs(nn.Module):
    def forward(self, x):
        n = x.size(0)
        a = x.unsqueeze(1).expand(-1, n, -1)
        b = x.unsqueeze(0).expand(n, -1, -1)
        return (a - b).abs().sum(dim=-1)


def build():
    return Pairs(), (torch.rand(64, 32),)
""",
        ),
        Example(
            "one-dimension-more",
            """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(64, 64))

    def forward(self, x):
        return x * self.gain.repeat(x.size(0), 1, 1)  #!


def build():
    return Gate(), (torch.rand(16, 64, 64),)
""",
            """\
import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(64, 64))

    def forward(self, x):
        return x * self.gain.expand(x.size(0), -1, -1)


def build():
    return Gate(), (torch.rand(16, 64, 64),)
""",
        ),
        Example(
            "heads-of-a-group",
            """\
import torch
from torch import nn


class Votes(nn.Module):
    def forward(self, q, k):
        k = k.repeat_interleave(4, dim=1)  #!
        scores = q @ k.transpose(2, 3)
        return scores.softmax(-1).sum(-2)


def build():
    return Votes(), (torch.randn(2, 8, 4, 32), torch.randn(2, 2, 512, 32))
""",
            """\
import torch
from torch import nn


class Votes(nn.Module):
    def forward(self, q, k):
        scores = (q.unflatten(1, (-1, 4)).flatten(2, 3) @ k.transpose(2, 3)).unflatten(2, (4, -1)).flatten(1, 2)
        return scores.softmax(-1).sum(-2)


def build():
    return Votes(), (torch.randn(2, 8, 4, 32), torch.randn(2, 2, 512, 32))
""",
        ),
        Example(
            "written-to",
            """\
import torch
from torch import nn


class Prompt(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("start", torch.rand(1, 6, 8))

    def forward(self, x):
        rows = self.start.repeat(x.size(0), 1, 1)
        rows[:, 0] += x
        return rows.tanh()


def build():
    return Prompt(), (torch.rand(16, 8),)
""",
        ),
        Example(
            "longer-not-wider",
            """\
import torch
from torch import nn


class Twice(nn.Module):
    def forward(self, x):
        return x.repeat(2, 1).tanh()


def build():
    return Twice(), (torch.rand(64, 64),)
""",
        ),
        Example(
            "two-results-of-a-helper",
            """\
import torch
from torch import nn


class Prompts(nn.Module):
    def spread(self, image, places, n):
        image = torch.repeat_interleave(image, n, dim=0)  #!
        return image, places.repeat(n, 1, 1)  #!

    def forward(self, image, places, tokens):
        image, places = self.spread(image[None], places[None], tokens.size(0))
        return (image + tokens[:, None]) * places


def build():
    return Prompts(), (torch.randn(64, 32), torch.randn(64, 32), torch.randn(16, 32))
""",
            """\
import torch
from torch import nn


class Prompts(nn.Module):
    def spread(self, image, places, n):
        image = image.expand(n, -1, -1)
        return image, places.expand(n, -1, -1)

    def forward(self, image, places, tokens):
        image, places = self.spread(image[None], places[None], tokens.size(0))
        return (image + tokens[:, None]) * places


def build():
    return Prompts(), (torch.randn(64, 32), torch.randn(64, 32), torch.randn(16, 32))
""",
        ),
        Example(
            "returned-as-it-is",
            """\
import torch
from torch import nn


class Rows(nn.Module):
    def forward(self, x):
        return x.unsqueeze(0).repeat(8, 1, 1)


def build():
    return Rows(), (torch.rand(64, 64),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node in walk(sites.tree.module):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                match = _match(sites, node, node.func) or _spread(sites, node)
                if match is not None:
                    yield match


def _match(sites: Sites, call: ast.Call, func: ast.Attribute) -> Match | None:
    if func.attr not in {"repeat", "tile", "repeat_interleave"}:
        return None
    op = sites.op(call, f"aten::{func.attr}")
    if op is None or not op.shapes:
        return None
    base = call.args[0] if is_torch_function(sites.tree.module, func) and call.args else func.value
    arguments = call.args[1:] if base is not func.value else call.args
    shape = op.shapes[0]
    sizes = _expanded(sites, call, func.attr, arguments, shape)
    if sizes is None:
        return _grouped(sites, call, func.attr, base, arguments, shape)
    readers = LayoutReaders(sites, only_same=True)
    try:
        readers.follow(call)
        require_no_writes(readers, call)
    except LayoutMattersError:
        return None
    if not readers.readers:
        return None
    cost = sites.cost(call)
    written = cost.alloc_bytes if cost is not None else 0
    share = sites.share(call)
    text = sites.tree.text(base)
    plain = isinstance(base, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
    edits = None
    if not has_comment(sites.source, *offsets(sites.source, call)):
        new = f"{text if plain else f'({text})'}.expand({', '.join(sizes)})"
        edits = checked(sites.source, [replace_node(sites.source, call, new)])
    return Match(
        sites.source.span(call),
        f"`{func.attr}` writes out {_bytes(written)} made of {math.prod(shape):,} elements again and again, "
        f"{percent(share)} of the forward, for readers that broadcast",
        share,
        {"elements": math.prod(shape), "bytes": written},
        (),
        (Fix("Use expand", "safe", edits),) if edits else (),
    )


def _grouped(
    sites: Sites, call: ast.Call, name: str, base: ast.expr, arguments: list[ast.expr], shape: Shape
) -> Match | None:
    """Key heads, each repeated for the query heads of its group, that only products read."""
    given = arguments[1] if len(arguments) > 1 else argument(call, 2, "dim")
    count, axis = arguments[0] if arguments else argument(call, 2, "repeats"), integer(given)
    op = sites.op(call, "aten::repeat_interleave")
    if (
        name != "repeat_interleave"
        or len(shape) < 3
        or axis is None
        or count is None
        or op is None
        or any(op.shapes[1:2])
    ):
        return None
    readers = readers_of(sites, call)
    if axis % len(shape) != len(shape) - 3 or readers is None:
        return None
    cost, share = sites.cost(call), sites.share(call)
    written = cost.alloc_bytes if cost is not None else 0
    message = (
        f"`{name}` writes out {_bytes(written)} made of {math.prod(shape):,} elements, {percent(share)} of the "
        f"forward, for a group of query heads each; {advice(readers)}"
    )
    fix: Fix | None = None
    try:
        fix = Fix("Put the query heads of a group below each other", "safe", folded(sites, call, base, count, shape))
    except RefusedError as refused:
        message = f"{message}. No automatic fix: {refused}"
    evidence: Evidence = {"elements": math.prod(shape), "bytes": written}
    return Match(sites.source.span(call), message, share, evidence, (), (fix,) if fix else ())


def _spread(sites: Sites, call: ast.Call) -> Match | None:
    """The same by `expand` and a `reshape` that copies."""
    readers = readers_of(sites, call) if is_spread(sites, call) else None
    if readers is None:
        return None
    cost, share = sites.cost(call), sites.share(call)
    written = cost.alloc_bytes if cost is not None else 0
    message = (
        f"`{sites.tree.text(call.func).rpartition('.')[2]}` writes out {_bytes(written)} of what `expand` only shows "
        f"repeatedly, {percent(share)} of the forward, for a product; if these are heads, {advice(readers)}. "
        "No automatic fix: the run does not tell which dimension is repeated"
    )
    return Match(sites.source.span(call), message, share, {"bytes": written})


def _bytes(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def _expanded(sites: Sites, call: ast.Call, name: str, arguments: list[ast.expr], shape: Shape) -> list[str] | None:
    """The arguments of `expand` that give the same shape; None if a dimension that has a length gets longer."""
    if name == "repeat_interleave":
        return _interleaved(sites, call, arguments, shape)
    if call.keywords or any(isinstance(a, ast.Starred) for a in arguments):
        return None
    first = arguments[0] if len(arguments) == 1 else None
    counts = list(first.elts) if isinstance(first, (ast.Tuple, ast.List)) else arguments
    if not counts or (len(counts) < len(shape) and name == "repeat"):
        return None
    if len(counts) == 1 and len(shape) != 1 and integer(counts[0]) is None:
        return None
    if len(counts) < len(shape):
        counts = [ast.Constant(1)] * (len(shape) - len(counts)) + counts
    added = len(counts) - len(shape)
    sizes: list[str] = []
    for position, count in enumerate(counts):
        literal = integer(count)
        length = 1 if position < added else shape[position - added]
        if literal == 1:
            sizes.append("-1" if position >= added else "1")
        elif length == 1 and (literal is None or literal > 1):
            sizes.append(sites.tree.text(count))
        else:
            return None
    return sizes if any(size not in {"-1", "1"} for size in sizes) else None


def _interleaved(sites: Sites, call: ast.Call, arguments: list[ast.expr], shape: Shape) -> list[str] | None:
    count = arguments[0] if arguments else next((k.value for k in call.keywords if k.arg == "repeats"), None)
    given = (
        arguments[1] if len(arguments) > 1 else next((k.value for k in call.keywords if keyword_name(k) == "dim"), None)
    )
    axis = integer(given)
    op = sites.op(call, "aten::repeat_interleave")
    # Counts in a tensor have a dimension.
    counted = op is not None and (len(op.shapes) < 2 or not op.shapes[1])
    extra = any(keyword_name(k) not in {"repeats", "dim"} for k in call.keywords)
    if count is None or axis is None or not counted or extra or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if not shape:
        return None
    axis %= len(shape)
    if shape[axis] != 1:
        return None
    return [sites.tree.text(count) if position == axis else "-1" for position in range(len(shape))]
