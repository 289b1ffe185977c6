"""A layer applied to every position, of which only a few are used."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from forwardlens.model import Edit, Fix, Related, Shape
from forwardlens.rules.batched import RefusedError, wrapped
from forwardlens.rules.constants import attribute_value, constructor, is_number
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of
from forwardlens.rules.heads import size_expression
from forwardlens.rules.loops import leading_shape
from forwardlens.rules.operations import (
    ELEMENTWISE,
    ELEMENTWISE_MODULES,
    called_name,
    is_torch_function,
    torch_function,
)
from forwardlens.rules.repeated import shown
from forwardlens.source.dataflow import (
    METADATA,
    aliases,
    bindings,
    definition,
    is_inplace,
    names_bound,
    names_read,
    overlap,
    read_after,
)
from forwardlens.source.rewrite import checked, insert_before, replace_node, replace_statements, splice, stands_alone
from forwardlens.source.tree import Tree, argument, dotted, integer, is_atom, walk

# A slice that keeps more of the positions than one in so many saves little.
_LEAST_SAVING = 2
_POSITIONWISE = ELEMENTWISE_MODULES | {"aten::linear", "aten::layer_norm", "aten::dropout"}
_REDUCING = frozenset({"argmax", "logsumexp"})
_LAST_DIMENSION = _REDUCING | {"softmax", "log_softmax", "normalize"}
_ARITHMETIC: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: int.__add__,
    ast.Sub: int.__sub__,
    ast.Mult: int.__mul__,
    ast.FloorDiv: int.__floordiv__,
}
_DEPTH = 8


@dataclass(frozen=True)
class _Cut:
    """`node` takes a part of `value`; `text` is how, behind it, and `items` are the same as an index."""

    node: ast.Subscript | ast.Call
    value: ast.expr
    text: str
    items: tuple[ast.expr, ...]


@dataclass(frozen=True)
class _Sliced:
    """`call(...)`, directly or through the names `names`, of whose value the same part is read by all `cuts`.

    `shape` is what the layer is given, `facts` are the reads that only ask for a size, a dtype or the like.
    """

    call: ast.Call
    shape: Shape
    cuts: tuple[_Cut, ...]
    names: tuple[str, ...]
    facts: tuple[ast.Name, ...]


class HeadBeforeSlice(Rule):
    """## What it does
    Finds `self.head(h)[:, -1]`: a layer runs over all positions, and what follows uses a few of them. Activations and
    other functions of single positions may stand between the two, and `narrow` or `select` in place of an index.

    ## Why it costs
    A linear layer computes each position by itself, so the work for positions that are sliced away is thrown away.
    For a vocabulary as output it is often the largest product of the forward.

    ## When to ignore it
    When all positions are needed somewhere else: that is not reported.

    ## Fix safety
    The fix is offered as safe for layers that work position by position (linear, activations, layer normalisation
    over the last dimension) and for indices that leave the last dimension alone. What the index is made of has to be
    there before the layer runs, or be a number made of sizes, which then moves in front of it. The same products are
    summed for fewer rows, which may change the last digits.
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
            "centre-after-an-activation",
            """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.bins = bins
        self.norm = nn.LayerNorm(16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        tracks = self.head(self.norm(h))  #!
        tracks = F.softplus(self.act(tracks) + 1, beta=2.0)
        flank = (tracks.size(1) - self.bins) // 2  # the same on both sides
        return tracks.narrow(1, flank, self.bins)


def build():
    return Net(), (torch.randn(4, 24, 16),)
""",
            """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.bins = bins
        self.norm = nn.LayerNorm(16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        flank = (h.size(1) - self.bins) // 2  # the same on both sides
        tracks = self.head(self.norm(h.narrow(1, flank, self.bins)))
        tracks = F.softplus(self.act(tracks) + 1, beta=2.0)
        return tracks


def build():
    return Net(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "size-in-the-index",
            """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.bins = bins
        self.norm = nn.LayerNorm(16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        scores = self.head(h.tanh())  #!
        best = torch.argmax(scores, dim=-1)
        return torch.select(best, 1, best.shape[1] // 2), scores.dtype


def build():
    return Net(), (torch.randn(4, 24, 16),)
""",
            """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.bins = bins
        self.norm = nn.LayerNorm(16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        given = h.tanh()
        scores = self.head(torch.select(given, 1, given.shape[1] // 2))
        best = torch.argmax(scores, dim=-1)
        return best, scores.dtype


def build():
    return Net(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "size-of-all-positions-asked",
            """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.bins = bins
        self.norm = nn.LayerNorm(16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        scores = self.head(h)  #!
        return scores[:, : self.bins].sum(1) / scores.size(1)


def build():
    return Net(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "number-changes-behind-the-layer",
            """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.bins = bins
        self.norm = nn.LayerNorm(16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        start = 2
        scores = self.head(h).exp()  #!
        start += scores.size(0)
        return scores[:, start : start + self.bins]


def build():
    return Net(), (torch.randn(4, 24, 16),)
""",
        ),
        Example(
            "positions-are-mixed-after-the-layer",
            """\
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self, bins=6):
        super().__init__()
        self.bins = bins
        self.norm = nn.LayerNorm(16)
        self.act = nn.GELU()
        self.head = nn.Linear(16, 200)

    def forward(self, h):
        scores = self.head(h).softmax(1)
        return scores.narrow(1, 0, self.bins)


def build():
    return Net(), (torch.randn(4, 24, 16),)
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
    op, tree, function = sites.op(call, "aten::linear"), sites.tree, sites.tree.function(call)
    if op is None or not op.shapes or function is None:
        return None
    value: ast.expr = call
    rank = len(op.shapes[0])
    names, facts = list[str](), list[ast.Name]()
    while True:
        while rank == len(op.shapes[0]) and (outer := _position_wise_parent(sites, value)) is not None:
            value = outer
            rank -= isinstance(value, ast.Call) and called_name(tree.module, value) in _REDUCING
        # From the end the dimensions of what is reduced are others than those of what the layer is given.
        axes = range(-rank if rank == len(op.shapes[0]) else 0, rank)
        cut = _cut(tree, value, axes)
        if cut is not None:
            return _Sliced(call, op.shapes[0], (cut,), tuple(names), tuple(facts))
        statement = tree.parent(value)
        if not isinstance(statement, ast.Assign) or statement.value is not value or len(statement.targets) != 1:
            return None
        target = statement.targets[0]
        if not isinstance(target, ast.Name):
            return None
        reads = _reads(sites, statement, target.id, definition(tree, function, target.id) is not None)
        names.append(target.id)
        facts += [read for read in reads if _fact(tree, read) is not None]
        values = [read for read in reads if _fact(tree, read) is None]
        cuts = [c for read in values if (c := _cut(tree, read, axes)) is not None]
        if cuts:
            same = len(cuts) == len(values) and len({cut.text for cut in cuts}) == 1
            return _Sliced(call, op.shapes[0], tuple(cuts), tuple(names), tuple(facts)) if same else None
        if len(values) != 1 or tree.statement(values[0]) not in tree.block(statement):
            return None
        value = values[0]


def _reads(sites: Sites, statement: ast.Assign, name: str, only: bool) -> list[ast.Name]:
    """The reads of what `statement` binds `name` to; none if they cannot be told."""
    tree = sites.tree
    function = tree.function(statement)
    if function is None:
        return []
    if only:
        return [n for n in walk(function) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    block = tree.block(statement)
    found: list[ast.Name] = []
    for later in block[block.index(statement) + 1 :]:
        reads = [x for x in walk(later) if isinstance(x, ast.Name) and x.id == name and isinstance(x.ctx, ast.Load)]
        if not reads and name not in names_bound(later):
            continue
        if not isinstance(later, (ast.Assign, ast.Return, ast.Expr)):
            return []
        found += reads
        if name in names_bound(later) or not read_after(tree, later, name):
            return found
    return []


def _fact(tree: Tree, read: ast.Name) -> ast.expr | None:
    """`y.size(1)`, `y.shape`, `y.dtype`: what asks `y` for a fact about it and reads no element."""
    parent = tree.parent(read)
    above = tree.parent(parent) if parent is not None else None
    for node in (tree.parent(above) if above is not None else None, above, parent):
        size = size_expression(node) if isinstance(node, ast.expr) else None
        if size is not None and size[0] is read and isinstance(node, ast.expr):
            return node
    return parent if isinstance(parent, ast.Attribute) and parent.attr in METADATA else None


def _position_wise_parent(sites: Sites, node: ast.expr) -> ast.expr | None:
    """The expression around `node` that does something to each position of it by itself."""
    tree = sites.tree
    parent = tree.parent(node)
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
        return parent
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
        return parent if is_number(tree, parent.right if parent.left is node else parent.left) else None
    if isinstance(parent, ast.Call) and parent.args and parent.args[0] is node:
        name = torch_function(tree.module, parent.func)
        if name is not None:
            return parent if _on_last(tree, parent, name, 1) else None
        layer = "aten::linear" not in sites.outermost(parent) and _layer_is_position_wise(sites, parent)
        return parent if layer else None
    call = tree.parent(parent) if isinstance(parent, ast.Attribute) else None
    if isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and call.func is parent:
        return call if _on_last(tree, call, parent.attr, 0) else None
    return None


def _on_last(tree: Tree, call: ast.Call, name: str, position: int) -> bool:
    """Whether a function works on each position by itself: elementwise, or along the last dimension."""
    others = [*call.args[position:], *(k.value for k in call.keywords)]
    if any(k.arg in {"out", "inplace", None} for k in call.keywords) or not all(_is_plain(tree, o) for o in others):
        return False
    if name in _LAST_DIMENSION and (name not in _REDUCING or len(others) == 1):
        # `normalize` takes the order of the norm before the dimension.
        return integer(argument(call, position + (name == "normalize"), "dim")) == -1
    return name in ELEMENTWISE and not is_inplace(name)


def _is_plain(tree: Tree, node: ast.expr) -> bool:
    """A number, a flag or a dtype."""
    return isinstance(node, ast.Constant) or is_number(tree, node) or is_torch_function(tree.module, node)


def _cut(tree: Tree, value: ast.expr, axes: range) -> _Cut | None:
    """What takes a part of `value`: `value[...]`, `value.narrow(1, start, n)`, `torch.select(value, 1, 0)`."""
    parent = tree.parent(value)
    if isinstance(parent, ast.Subscript) and parent.value is value and isinstance(parent.ctx, ast.Load):
        text = tree.source.slice(tree.source.span(parent))[len(tree.text(value)) :]
        return _Cut(parent, value, text, tuple(index_items(parent)))
    method = isinstance(parent, ast.Attribute) and parent.value is value
    call = tree.parent(parent) if isinstance(parent, ast.Attribute) and method else parent
    if not isinstance(call, ast.Call) or (call.func is not parent if method else call.args[:1] != [value]):
        return None
    name = parent.attr if isinstance(parent, ast.Attribute) and method else torch_function(tree.module, call.func)
    at = 0 if method else 1
    dim, first, length = (argument(call, at + n, key) for n, key in enumerate(("dim", "start", "length")))
    axis = integer(dim)
    if name == "select":
        first = argument(call, at + 1, "index")
    if name not in {"narrow", "select"} or axis is None or first is None or axis not in axes:
        return None
    if name == "narrow":
        if length is None:
            return None
        first = ast.Slice(first, ast.BinOp(first, ast.Add(), length))
    given = ", ".join(tree.text(a) for a in (*call.args[at:], *call.keywords))
    return _Cut(call, value, f".{name}({given})", (*(ast.Slice() for _ in range(axis % axes.stop)), first))


# -- what the slice keeps


def _saves(sites: Sites, sliced: _Sliced) -> bool:
    """Whether the index takes a part of the positions only, and leaves the last dimension whole."""
    op = sites.op(sliced.call, "aten::linear")
    cost = sites.cost(sliced.call)
    if op is None or cost is None or op.shape_variants > max(1, op.calls // max(1, cost.calls)):
        return False
    shape = sliced.shape
    items = list(sliced.cuts[0].items)
    if len(items) == len(shape) and isinstance(items[-1], ast.Slice) and not _bounds(items[-1]):
        items = items[:-1]
    if len(items) >= len(shape) or not items:
        return False
    kept = list(shape[:-1])
    looked = [n for n, item in enumerate(items) if not isinstance(item, ast.Slice) and not is_number(sites.tree, item)]
    if looked and (len(looked) < 2 or not _look_up(sites, sliced, [items[n] for n in looked])):
        return False
    for n, item in enumerate(items):
        if isinstance(item, ast.Slice):
            length = _length(sites, sliced, item, shape[n])
            if length is None:
                return False
            kept[n] = length
        elif n not in looked[:1]:
            # A number, or a position for each row, as in `[arange, lengths - 1]`.
            kept[n] = 1
    return prod(kept) * _LEAST_SAVING <= prod(shape[:-1])


def _look_up(sites: Sites, sliced: _Sliced, items: list[ast.expr]) -> bool:
    """Whether tensors of positions index here, and no masks."""
    if any(isinstance(n, ast.Constant) and not isinstance(n.value, int) for n in items):
        return False
    costs = [sites.cost(cut.node) for cut in sliced.cuts]
    return all(c is not None and c.op_calls("aten::index") and not c.op_calls("aten::nonzero") for c in costs)


def _bounds(item: ast.Slice) -> bool:
    return any(bound is not None for bound in (item.lower, item.upper, item.step))


def _length(sites: Sites, sliced: _Sliced, item: ast.Slice, size: int) -> int | None:
    """How many of `size` positions a slice keeps, with the sizes that the run saw."""
    lower, upper = item.lower, item.upper
    if lower is not None and isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add) and item.step is None:
        # `x[:, start : start + n]`, wherever it starts.
        length = _value(sites, sliced, upper.right) if ast.dump(upper.left) == ast.dump(lower) else None
        if length is not None:
            return min(length, size)
    bounds = [(b, _value(sites, sliced, b)) for b in (item.lower, item.upper, item.step)]
    if any(b is not None and number is None for b, number in bounds):
        return None
    first, last, step = (number for _, number in bounds)
    return len(range(size)[first:last:step]) if step != 0 else None


def _value(sites: Sites, sliced: _Sliced, node: ast.expr | None, depth: int = 0) -> int | None:
    """What a whole number in an index is, if it is made of literals, sizes of what is sliced and defaults."""
    tree = sites.tree
    if node is None or depth > _DEPTH or integer(node) is not None:
        return integer(node)
    size = size_expression(node)
    if size is not None:
        return _size(sites, sliced, *size)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        operand = _value(sites, sliced, node.operand, depth + 1)
        return None if operand is None else -operand
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = (_value(sites, sliced, side, depth + 1) for side in (node.left, node.right))
        if left is None or right is None or (isinstance(node.op, ast.FloorDiv) and right == 0):
            return None
        return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.Name):
        function = tree.function(sliced.call)
        made = definition(tree, function, node.id) if function is not None else None
        return _assigned(sites, sliced, made, node.id, depth) if made is not None else None
    return _default(tree, node) if isinstance(node, ast.Attribute) else None


def _assigned(sites: Sites, sliced: _Sliced, made: ast.Assign, name: str, depth: int) -> int | None:
    """What `n` is of `n = x.size(1) // 2` or `b, n, _ = x.shape`."""
    target = made.targets[0]
    if isinstance(target, ast.Name):
        return _value(sites, sliced, made.value, depth + 1)
    base = leading_shape(made.value)
    names = [dotted(element) for element in target.elts] if isinstance(target, ast.Tuple) else []
    return _size(sites, sliced, base, names.index(name)) if base is not None and name in names else None


def _size(sites: Sites, sliced: _Sliced, base: ast.expr, axis: int) -> int | None:
    """The size of what is sliced, or of what its layer is given, along one of its positions."""
    inner = _innermost(sites, sliced.call)
    given = dotted(inner) if inner is not None else None
    known = dotted(base) is not None and dotted(base) in {*sliced.names, given}
    return sliced.shape[axis] if known and 0 <= axis < len(sliced.shape) - 1 else None


def _default(tree: Tree, node: ast.Attribute) -> int | None:
    """What `self.bins` is set to in `__init__`: a literal, or a default that no call in the file replaces."""
    value = attribute_value(tree, node, node.attr) if dotted(node) == f"self.{node.attr}" else None
    init, function = constructor(tree, node), tree.function(node)
    owner = tree.owner(function) if function is not None else None
    if not isinstance(value, ast.Name) or init is None or owner is None:
        return integer(value)
    for call in (n for n in walk(tree.module) if isinstance(n, ast.Call)):
        if dotted(call.func) in {owner.name, "super().__init__"} and (call.args or call.keywords):
            return None
    spec = init.args
    given = dict(zip(reversed([a.arg for a in (*spec.posonlyargs, *spec.args)]), reversed(spec.defaults), strict=False))
    given |= dict(zip((a.arg for a in spec.kwonlyargs), spec.kw_defaults, strict=True))
    return integer(given.get(value.id)) if len(bindings(init, value.id)) == 1 else None


# -- the fix


def _match(sites: Sites, sliced: _Sliced) -> Match:
    tree, call, cut = sites.tree, sliced.call, sliced.cuts[0]
    cost = sites.cost(call)
    assert cost is not None
    share = sites.share(call)
    positions = prod(sliced.shape[:-1])
    message = (
        f"`{shown(tree.text(call.func))}` takes {percent(share)} of the forward for {positions} positions, and only "
        f"`{shown(cut.text)}` of them are used: it works position by position, so the others need not be computed"
    )
    fix: Fix | None = None
    try:
        fix = Fix("Take the positions first", "safe", _earlier(sites, sliced))
    except RefusedError as refused:
        message = f"{message}; slice its input instead. No automatic fix: {refused}"
    return Match(
        sites.source.span(call),
        message,
        share,
        {"positions": positions, "calls": cost.calls},
        (Related(sites.source.span(cut.node), "all that is used of it"),),
        (fix,) if fix else (),
    )


def _earlier(sites: Sites, sliced: _Sliced) -> tuple[Edit, ...]:
    tree, cut = sites.tree, sliced.cuts[0]
    if any("\n" in c.text or "#" in c.text for c in sliced.cuts):
        raise RefusedError("the index goes over several lines")
    if not _layer_is_position_wise(sites, sliced.call):
        raise RefusedError(f"`{tree.text(sliced.call.func)}` is not known to work position by position")
    inner = _innermost(sites, sliced.call)
    if inner is None:
        raise RefusedError("the input of the layer is not its first argument")
    moved = _moved(sites, sliced)
    _require_kept(sites, sliced, moved)
    asked = [fact for read in sliced.facts if (fact := _size_asked(sites, sliced, read, moved)) is not None]
    edits: list[Edit] = []
    given, lines = tree.text(inner), list[str]()
    if asked and dotted(inner) is None:
        given = sites.fresh_name(tree.function(inner) or tree.module, inner, "given")
        lines.append(f"{given} = {tree.text(inner)}")
    parts: dict[ast.expr, str] = dict.fromkeys(sliced.facts, given)
    for statement in moved:
        inside = {read: text for read, text in parts.items() if tree.statement(read) is statement}
        lines.append(splice(sites.source, statement, inside) + _comment(tree, statement))
        edits.append(replace_statements(tree, [statement], []))
    here = tree.statement(sliced.call)
    if lines:
        if not all(stands_alone(tree, s) for s in (here, *moved)):
            raise RefusedError("a line that has to move shares it with other code")
        edits.append(insert_before(tree, here, lines))
    atom = given if asked and dotted(inner) is None else wrapped(given, is_atom(inner))
    inside = {read: text for read, text in parts.items() if any(read is n for i in cut.items for n in walk(i))}
    edits.append(replace_node(sites.source, inner, splice(sites.source, cut.node, {**inside, cut.value: atom})))
    edits += [replace_node(sites.source, c.node, tree.text(c.value)) for c in sliced.cuts]
    fitted = checked(sites.source, edits)
    if fitted is None:
        raise RefusedError("the edits do not fit together")
    return fitted


def _moved(sites: Sites, sliced: _Sliced) -> list[ast.Assign]:
    """The statements behind the layer that compute what the index reads, in their order."""
    tree, here = sites.tree, sites.tree.statement(sliced.call)
    function, block = tree.function(here), tree.block(here)
    at = block.index(here)
    found: list[ast.Assign] = []
    todo = {name for item in sliced.cuts[0].items for name in names_read(item)}
    while todo:
        name = todo.pop()
        stores = [n for n in bindings(function, name) if not isinstance(n, ast.arg)] if function is not None else []
        if name in sliced.names or not any(_comes_later(tree, store, here, sliced) for store in stores):
            continue
        made = definition(tree, function, name) if function is not None else None
        if made is None or made not in block[at + 1 :] or not isinstance(made.targets[0], ast.Name):
            raise RefusedError(f"`{name}` gets its value after the layer ran")
        if not _is_arithmetic(made.value) or any(cost.ops for _, cost in sites.inside(made)):
            raise RefusedError(f"`{name}` is more than a number made of sizes")
        if any(name in names_read(earlier) for earlier in block[at : block.index(made)]):
            raise RefusedError(f"`{name}` is read before it gets its value")
        if made not in found:
            found.append(made)
            todo |= names_read(made.value)
    return sorted(found, key=block.index)


def _comes_later(tree: Tree, store: ast.AST, here: ast.stmt, sliced: _Sliced) -> bool:
    """Whether a binding may lie between the layer and what is read of its value."""
    statement = tree.statement(store)
    if statement is here:
        return any(tree.statement(cut.node) is not here for cut in sliced.cuts) or not isinstance(here, ast.Assign)
    return statement.lineno > here.lineno


def _is_arithmetic(node: ast.expr) -> bool:
    """Whether an expression is whole numbers, names and sizes, put together by arithmetic."""
    if size_expression(node) is not None or dotted(node) is not None or integer(node) is not None:
        return True
    if isinstance(node, ast.UnaryOp):
        return _is_arithmetic(node.operand)
    if isinstance(node, ast.BinOp):
        return type(node.op) in _ARITHMETIC and _is_arithmetic(node.left) and _is_arithmetic(node.right)
    plain = isinstance(node, ast.Call) and dotted(node.func) in {"int", "min", "max"} and not node.keywords
    return isinstance(node, ast.Call) and plain and all(map(_is_arithmetic, node.args))


def _require_kept(sites: Sites, sliced: _Sliced, moved: list[ast.Assign]) -> None:
    """Refuse where what the index is made of may change between the layer and what is read of its value."""
    tree, here = sites.tree, sites.tree.statement(sliced.call)
    function, block = tree.function(here), tree.block(here)
    parts = [*sliced.cuts[0].items, *(statement.value for statement in moved)]
    read = {p for part in parts for n in walk(part) if isinstance(n, (ast.Name, ast.Attribute)) and (p := dotted(n))}
    places = {p for p in read if p != "self" and p.split(".")[0] not in sliced.names}
    if not places and not sliced.facts:
        return
    ends = [next((s for s in (n, *tree.ancestors(n)) if s in block), None) for n in (c.node for c in sliced.cuts)]
    last = max((block.index(s) if isinstance(s, ast.stmt) else -1 for s in ends), default=-1)
    if None in ends or any(isinstance(s, ast.stmt) and block.index(s) < block.index(here) for s in ends):
        raise RefusedError("its value is read in another round or branch")
    shared = {s for place in places for s in (aliases(function, place) if function is not None else {place})}
    for statement in block[block.index(here) : last + 1]:
        for _, place in changes(sites, statement):
            if place is None or any(overlap(place, s) for s in shared - {"self"}):
                raise RefusedError("what the index is made of is changed behind the layer")


def _size_asked(sites: Sites, sliced: _Sliced, read: ast.Name, moved: list[ast.Assign]) -> ast.expr | None:
    """The size of the input that the new index has to ask for, in place of `read` in an index or what moves.

    None if the answer is the same for the positions that are left. Raises if it is another one.
    """
    tree, fact = sites.tree, _fact(sites.tree, read)
    size = size_expression(fact) if fact is not None else None
    in_index = any(read is n for cut in sliced.cuts for item in cut.items for n in walk(item))
    if in_index or tree.statement(read) in moved:
        if fact is not None and size is not None and 0 <= size[1] < len(sliced.shape) - 1:
            return fact
    else:
        left = size is not None and 0 <= size[1] < _whole_dimensions(sliced)
        if left or (isinstance(fact, ast.Attribute) and fact.attr in {"device", "dtype"}):
            return None
    raise RefusedError(f"`{tree.text(fact or read)}` asks about the whole of it")


def _whole_dimensions(sliced: _Sliced) -> int:
    """How many dimensions in front of the first that is cut."""
    items = sliced.cuts[0].items
    cut = (n for n, item in enumerate(items) if not isinstance(item, ast.Slice) or _bounds(item))
    return next(cut, len(items))


def _comment(tree: Tree, statement: ast.stmt) -> str:
    """What stands behind a statement on its last line."""
    line, column = tree.source.span(statement).end
    return tree.source.line(line)[column:].rstrip()


def _innermost(sites: Sites, call: ast.Call) -> ast.expr | None:
    """What goes into the layer, and into the layers in front of it that need not see all positions either."""
    while True:
        inner = call.args[0] if call.args else None
        if inner is None or isinstance(inner, ast.Starred):
            return None
        if not isinstance(inner, ast.Call) or not _layer_is_position_wise(sites, inner):
            return inner
        call = inner


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
