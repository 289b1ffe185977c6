"""A layer applied to every position, of which only a few are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from forwardlens.model import Edit, Fix, Related
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of
from forwardlens.rules.operations import ELEMENTWISE, ELEMENTWISE_MODULES, is_torch_function
from forwardlens.rules.repeated import shown
from forwardlens.source.dataflow import bindings, definition, is_inplace, names_bound, names_read, read_after
from forwardlens.source.rewrite import checked, replace_node
from forwardlens.source.tree import argument, dotted, integer, walk

# A slice that keeps more of the positions than one in so many saves little.
_LEAST_SAVING = 2
_POSITIONWISE = ELEMENTWISE_MODULES | {"aten::linear", "aten::layer_norm", "aten::dropout"}
_LAST_DIMENSION = frozenset({"softmax", "log_softmax", "argmax", "logsumexp", "normalize"})


@dataclass(frozen=True)
class _Sliced:
    """`call(...)`, directly or under the name `name`, whose value is read as `[items]` only."""

    call: ast.Call
    reads: tuple[ast.Subscript, ...]


class HeadBeforeSlice(Rule):
    """## What it does
    Finds `self.head(h)[:, -1]`: a layer runs over all positions, and what follows uses a few of them.

    ## Why it costs
    A linear layer computes each position by itself, so the work for positions that are sliced away is thrown away.
    For a vocabulary as output it is often the largest product of the forward.

    ## When to ignore it
    When all positions are needed somewhere else: that is not reported.

    ## Fix safety
    The fix is offered as safe for layers that work position by position (linear, activations, layer normalisation
    over the last dimension) and for indices that leave the last dimension alone. The same products are summed for
    fewer rows, which may change the last digits.
    """

    name: ClassVar[str] = "head-before-slice"
    summary: ClassVar[str] = "A layer runs on all positions, and few of them are used"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "last-position",
            """\
import torch
from torch import nn


class Next(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        return self.head(self.norm(h))[:, -1, :].softmax(-1)  #!


def build():
    return Next(), (torch.randn(4, 24, 16),)
""",
            """\
import torch
from torch import nn


class Next(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        return self.head(self.norm(h[:, -1, :])).softmax(-1)


def build():
    return Next(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "named-and-overwritten",
            """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        logits = self.head(h * 2)  #!
        logits = logits[:, -1] / 0.7
        return logits.log_softmax(-1)


def build():
    return Step(), (torch.randn(4, 24, 16),)
""",
            """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        logits = self.head((h * 2)[:, -1])
        logits = logits / 0.7
        return logits.log_softmax(-1)


def build():
    return Step(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "first-two-after-softmax",
            """\
import torch
from torch import nn


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        return torch.softmax(self.head(h), dim=-1)[:, :2]  #!


def build():
    return First(), (torch.randn(4, 24, 16),)
""",
            """\
import torch
from torch import nn


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        return torch.softmax(self.head(h[:, :2]), dim=-1)


def build():
    return First(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "last-of-each-length",
            """\
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h, lengths):
        rows = torch.arange(h.size(0))
        scores = self.head(h)  #!
        return scores[rows, lengths - 1]


def build():
    return Classifier(), (torch.randn(4, 24, 16), torch.tensor([3, 9, 24, 1]))
""",
            """\
import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h, lengths):
        rows = torch.arange(h.size(0))
        scores = self.head(h[rows, lengths - 1])
        return scores


def build():
    return Classifier(), (torch.randn(4, 24, 16), torch.tensor([3, 9, 24, 1]))
""",
        ),
        Example(
            "all-positions-used-too",
            """\
import torch
from torch import nn


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        logits = self.head(h)
        return logits[:, -1], logits.mean()


def build():
    return Both(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "positions-are-mixed",
            """\
import torch
from torch import nn


class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.Softmax(dim=1)

    def forward(self, h):
        return self.norm(h)[:, -1]


def build():
    return Mixed(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "shifted-by-one",
            """\
import torch
from torch import nn


class Shifted(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        return self.head(h)[:, :-1]


def build():
    return Shifted(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "some-outputs",
            """\
import torch
from torch import nn


class Outputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        return self.head(h)[:, 0]


def build():
    return Outputs(), (torch.randn(24, 16),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node, cost in sites.items():
            if not isinstance(node, ast.Call) or sites.op(node, "aten::linear") is None or not cost.calls:
                continue
            sliced = _sliced(sites, node)
            if sliced is not None and _saves(sites, sliced):
                yield _match(sites, sliced)


# -- who reads the value


def _sliced(sites: Sites, call: ast.Call) -> _Sliced | None:
    """What of the value of `call` is read, if that is the same few positions everywhere."""
    tree = sites.tree
    value: ast.expr = call
    while (outer := _position_wise_parent(sites, value)) is not None:
        value = outer
    parent = tree.parent(value)
    if isinstance(parent, ast.Subscript) and parent.value is value and isinstance(parent.ctx, ast.Load):
        return _Sliced(call, (parent,))
    if not isinstance(parent, ast.Assign) or parent.value is not value or len(parent.targets) != 1:
        return None
    target, function = parent.targets[0], tree.function(call)
    if not isinstance(target, ast.Name) or function is None:
        return None
    reads = _reads(sites, parent, target.id, definition(tree, function, target.id) is not None)
    slices = [tree.parent(read) for read in reads]
    subscripts = [s for s, r in zip(slices, reads, strict=True) if isinstance(s, ast.Subscript) and s.value is r]
    if not subscripts or len(subscripts) < len(reads) or len({tree.text(s) for s in subscripts}) > 1:
        return None
    if any(not isinstance(s.ctx, ast.Load) for s in subscripts):
        return None
    return _Sliced(call, tuple(subscripts))


def _reads(sites: Sites, statement: ast.Assign, name: str, only: bool) -> list[ast.Name]:
    """The reads of what `statement` binds `name` to; none if they cannot be told."""
    tree = sites.tree
    function = tree.function(statement)
    if function is None:
        return []
    if only:
        return [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    block = tree.block(statement)
    following = block[block.index(statement) + 1 :]
    for n, later in enumerate(following):
        reads = [x for x in walk(later) if isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load)]
        if not reads and name not in names_bound(later):
            continue
        plain = isinstance(later, (ast.Assign, ast.Return, ast.Expr))
        done = name in names_bound(later) or not read_after(tree, later, name)
        return reads if plain and done and n < len(following) else []
    return []


def _position_wise_parent(sites: Sites, node: ast.expr) -> ast.expr | None:
    """The expression around `node` that does something to each position of it by itself."""
    tree = sites.tree
    parent = tree.parent(node)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Mult, ast.Div)):
        other = parent.right if parent.left is node else parent.left
        return parent if isinstance(other, ast.Constant) else None
    if isinstance(parent, ast.Call) and parent.args and parent.args[0] is node:
        if is_torch_function(tree.module, parent.func) and isinstance(parent.func, ast.Attribute):
            return parent if _on_last(parent, parent.func.attr, 1) else None
        return None
    call = tree.parent(parent) if isinstance(parent, ast.Attribute) else None
    if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
        return call if _on_last(call, parent.attr, 0) else None
    return None


def _on_last(call: ast.Call, name: str, position: int) -> bool:
    """Whether a function works on each position by itself: elementwise, or along the last dimension."""
    if name in _LAST_DIMENSION:
        return integer(argument(call, position, "dim")) == -1 and not any(k.arg != "dim" for k in call.keywords)
    return name in ELEMENTWISE and not is_inplace(name) and len(call.args) == position and not call.keywords


# -- what the slice keeps


def _saves(sites: Sites, sliced: _Sliced) -> bool:
    """Whether the index takes a part of the positions only, and leaves the last dimension whole."""
    op = sites.op(sliced.call, "aten::linear")
    cost = sites.cost(sliced.call)
    if op is None or cost is None or not op.shapes or op.shape_variants > max(1, op.calls // max(1, cost.calls)):
        return False
    shape = op.shapes[0]
    items = index_items(sliced.reads[0])
    if len(items) == len(shape) and isinstance(items[-1], ast.Slice) and not _bounds(items[-1]):
        items = items[:-1]
    if len(items) >= len(shape) or not items:
        return False
    kept = list(shape[:-1])
    looked = [n for n, item in enumerate(items) if not isinstance(item, ast.Slice) and integer(item) is None]
    if looked and (len(looked) < 2 or not _known_earlier(sites, sliced, [items[n] for n in looked])):
        return False
    for n, item in enumerate(items):
        if isinstance(item, ast.Slice):
            length = _length(item, shape[n])
            if length is None:
                return False
            kept[n] = length
        elif integer(item) is not None:
            kept[n] = 1
        elif n != looked[0]:
            # A position for each row, as in `[arange, lengths - 1]`.
            kept[n] = 1
    return prod(kept) * _LEAST_SAVING <= prod(shape[:-1])


def _known_earlier(sites: Sites, sliced: _Sliced, items: list[ast.expr]) -> bool:
    """Whether tensors of positions index here, no masks, and all they are made of is there before the layer runs."""
    tree = sites.tree
    here = tree.statement(sliced.call)
    function = tree.function(sliced.call)
    if function is None or any(isinstance(n, ast.Constant) and not isinstance(n.value, int) for n in items):
        return False
    for read in sliced.reads:
        cost = sites.cost(read)
        if cost is None or not cost.op_calls("aten::index") or cost.op_calls("aten::nonzero"):
            return False
    if all(tree.statement(read) is here for read in sliced.reads):
        return True
    for name in {name for item in items for name in names_read(item)}:
        stores = [n for n in bindings(function, name) if not isinstance(n, ast.arg)]
        if any(getattr(n, "lineno", 0) >= here.lineno for n in stores):
            return False
    return True


def _bounds(item: ast.Slice) -> bool:
    return any(bound is not None for bound in (item.lower, item.upper, item.step))


def _length(item: ast.Slice, size: int) -> int | None:
    """How many of `size` positions a slice with literal bounds keeps."""
    bounds = [(b, integer(b)) for b in (item.lower, item.upper, item.step)]
    if any(b is not None and number is None for b, number in bounds):
        return None
    lower, upper, step = (number for _, number in bounds)
    return len(range(size)[lower:upper:step])


# -- the fix


def _match(sites: Sites, sliced: _Sliced) -> Match:
    tree, call = sites.tree, sliced.call
    cost = sites.cost(call)
    op = sites.op(call, "aten::linear")
    assert cost is not None
    assert op is not None
    share = sites.share(call)
    index = tree.source.slice(sites.source.span(sliced.reads[0]))[len(tree.text(sliced.reads[0].value)) :]
    positions = prod(op.shapes[0][:-1])
    message = (
        f"`{shown(tree.text(call.func))}` takes {percent(share)} of the forward for {positions} positions, and only "
        f"`{shown(index)}` of them are used: it works position by position, so the others need not be computed"
    )
    fix: Fix | None = None
    try:
        fix = Fix("Take the positions first", "safe", _earlier(sites, sliced, index))
    except RefusedError as refused:
        message = f"{message}; slice its input instead. No automatic fix: {refused}"
    return Match(
        sites.source.span(call),
        message,
        share,
        {"positions": positions, "calls": cost.calls},
        (Related(sites.source.span(sliced.reads[0]), "all that is used of it"),),
        (fix,) if fix else (),
    )


def _earlier(sites: Sites, sliced: _Sliced, index: str) -> tuple[Edit, ...]:
    tree = sites.tree
    if "\n" in index or "#" in index:
        raise RefusedError("the index goes over several lines")
    given = sliced.call
    if not _layer_is_position_wise(sites, given):
        raise RefusedError(f"`{tree.text(given.func)}` is not known to work position by position")
    # As far inside as the layers allow: what the input goes through before need not see the others either.
    while True:
        inner = given.args[0] if given.args else None
        if inner is None or isinstance(inner, ast.Starred):
            raise RefusedError("the input of the layer is not its first argument")
        if not isinstance(inner, ast.Call) or not _layer_is_position_wise(sites, inner):
            break
        given = inner
    text = tree.text(inner)
    atom = isinstance(inner, (ast.Name, ast.Attribute, ast.Subscript, ast.Call))
    edits = [replace_node(sites.source, inner, f"{text}{index}" if atom else f"({text}){index}")]
    edits += [_without_index(sites, read) for read in sliced.reads]
    fitted = checked(sites.source, edits)
    if fitted is None:
        raise RefusedError("the edits do not fit together")
    return fitted


def _without_index(sites: Sites, read: ast.Subscript) -> Edit:
    source = sites.source
    end = source.span(read).end
    start = source.span(read.value).end
    return Edit(source.path, start, end, "")


def _layer_is_position_wise(sites: Sites, call: ast.Call) -> bool:
    """A layer that the run saw to consist of operators that keep positions apart."""
    ran = sites.outermost(call)
    if not ran or not ran <= _POSITIONWISE or call.keywords or not call.args or "aten::dropout" in ran:
        return False
    if is_torch_function(sites.tree.module, call.func):
        return isinstance(call.func, ast.Attribute) and call.func.attr == "linear"
    norm = sites.op(call, "aten::layer_norm")
    if norm is not None and len(norm.shapes[2] if len(norm.shapes) > 2 else ()) != 1:
        return False
    return len(call.args) == 1 and dotted(call.func) is not None
