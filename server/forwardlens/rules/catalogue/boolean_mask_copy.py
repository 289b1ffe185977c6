"""Elements picked out by a boolean mask and put back, where a selection would do."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from forwardlens.model import Edit, Fix, Related, Shape
from forwardlens.rules.constants import is_number
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes
from forwardlens.rules.escape import private_since
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of, times
from forwardlens.rules.operations import is_repeatable, is_torch_function, torch_function, torch_name
from forwardlens.rules.repeated import insert_after
from forwardlens.source.dataflow import aliases, definition, may_alias, names_read, overlap
from forwardlens.source.rewrite import (
    checked,
    has_comment,
    offsets,
    replace_node,
    replace_statements,
    splice,
    stands_alone,
)
from forwardlens.source.tree import argument, dotted, integer, is_atom, walk

# A mask of rows copies only the rows that it picks; `where` copies all of them and pays if they are not many more.
LEAST_ROWS = 0.25
# A line that is longer becomes one for each argument.
_LONG = 88
_SIGNS: Mapping[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
# Work on each element by itself whose gradient is finite for every element, also for an infinite one.
_STRAIGHT = frozenset("abs neg relu clamp clip clamp_min clamp_max".split())
# The same with a gradient that an infinite element makes infinite or undefined.
_BOUNDED = frozenset(
    """add sub mul multiply square pow tanh sigmoid sin cos erf softplus silu gelu elu maximum minimum
    """.split()
)
# The same where finite elements may do so too.
_MADE = frozenset(
    """zeros_like ones_like empty_like full_like zeros ones empty full new_zeros new_ones new_empty new_full""".split()
)
# Functions whose result is boolean.
_ASKING = frozenset(
    """gt ge lt le eq ne greater less isnan isinf isfinite isclose logical_and logical_or logical_xor logical_not
    signbit bool""".split()
)
_UNBOUNDED = frozenset("div exp expm1 log log1p log2 log10 sqrt rsqrt reciprocal tan atan2".split())


class BooleanMaskCopy(Rule):
    """## What it does
    Finds elements that are picked by a boolean mask only to be written back or added up: `y[m] = z[m]`,
    `y[m] = row`, `y[m] = z[m].pow(2)`, `y[m] *= 2`, `x[m].mean()`, and `masked_select` with a mask that is the same
    along a dimension.

    ## Why it costs
    Indexing with a mask first lists the position of every true element (`nonzero`, 8 bytes for each of its
    coordinates), then gathers or scatters one element at a time; on a GPU the host waits for the length of that list.
    `torch.where` reads every element once, in order.

    ## When to ignore it
    `y[m] = 0.0` already runs as `masked_fill_` and is not reported. A mask of a few rows of a large tensor is cheap as
    it is, and not reported either.

    ## Fix safety
    The fix is offered as safe if the run showed that the mask, the target and what is written have fitting shapes,
    and if the target's memory is its own: `torch.where` makes a new tensor, which another name of the old one
    would not see. What the mask leaves out is replaced, not multiplied by zero, so `nan` and `inf` stay out: where a
    gradient could bring them back, already before anything is computed. Sums are taken in another order, which shows in
    the last digits.
    """

    name: ClassVar[str] = "boolean-mask-copy"
    summary: ClassVar[str] = "Elements picked by a boolean mask where a selection would do"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "masked-assignment",
            """\
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x, other, mask):
        y = x.clone()
        y[mask] = other[mask]  #!
        return y.sqrt()


def build():
    size = (4, 3, 32, 32)
    return Blend(), (torch.rand(size), torch.rand(size), torch.rand(size) < 0.5)
""",
            """\
import torch
from torch import nn


class Blend(nn.Module):
    def forward(self, x, other, mask):
        y = torch.where(mask, other, x)
        return y.sqrt()


def build():
    size = (4, 3, 32, 32)
    return Blend(), (torch.rand(size), torch.rand(size), torch.rand(size) < 0.5)
""",
        ),
        Example(
            "row-for-masked-tokens",
            """\
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)
        self.token = nn.Parameter(torch.rand(32))

    def forward(self, x, mask):
        h = self.lin(x)
        h[mask] = self.token  #!
        return h.tanh()


def build():
    return Masked(), (torch.rand(8, 64, 32), torch.rand(8, 64) < 0.5)
""",
            """\
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(32, 32)
        self.token = nn.Parameter(torch.rand(32))

    def forward(self, x, mask):
        h = self.lin(x)
        h = torch.where(mask[..., None], self.token, h)
        return h.tanh()


def build():
    return Masked(), (torch.rand(8, 64, 32), torch.rand(8, 64) < 0.5)
""",
        ),
        Example(
            "scaled-in-place",
            """\
import torch
from torch import nn


class Leak(nn.Module):
    def forward(self, x):
        y = x * 2
        negative = y < 0
        y[negative] *= 0.1  #!
        return y


def build():
    return Leak(), (torch.randn(64, 256),)
""",
            """\
import torch
from torch import nn


class Leak(nn.Module):
    def forward(self, x):
        y = x * 2
        negative = y < 0
        y = torch.where(negative, y * 0.1, y)
        return y


def build():
    return Leak(), (torch.randn(64, 256),)
""",
        ),
        Example(
            "masked-mean",
            """\
import torch
from torch import nn


class Loss(nn.Module):
    def forward(self, x, mask):
        error = (x - 1.0).abs()
        return error[mask].mean()  #!


def build():
    return Loss(), (torch.randn(64, 256), torch.rand(64, 256) < 0.7)
""",
            """\
import torch
from torch import nn


class Loss(nn.Module):
    def forward(self, x, mask):
        error = (x - 1.0).abs()
        return torch.where(mask, error, 0).sum() / mask.sum()


def build():
    return Loss(), (torch.randn(64, 256), torch.rand(64, 256) < 0.7)
""",
        ),
        Example(
            "select-with-a-broadcast-mask",
            """\
import torch
from torch import nn


class Nodes(nn.Module):
    def forward(self, x, kept):
        return torch.masked_select(x, kept.unsqueeze(-1)).view(-1, x.size(1))  #!


def build():
    return Nodes(), (torch.randn(900, 64), torch.rand(900) < 0.5)
""",
            """\
import torch
from torch import nn


class Nodes(nn.Module):
    def forward(self, x, kept):
        return x[kept].flatten().view(-1, x.size(1))


def build():
    return Nodes(), (torch.randn(900, 64), torch.rand(900) < 0.5)
""",
        ),
        Example(
            "two-regions",
            """\
import torch
from torch import nn


class Huber(nn.Module):
    def __init__(self, kappa=1.0):
        super().__init__()
        self.kappa = kappa

    def forward(self, u):
        loss = torch.zeros_like(u)
        near = u.abs() <= self.kappa
        far = ~near
        loss[near] = 0.5 * u[near].pow(2)  #!
        loss[far] = self.kappa * (u[far].abs() - 0.5 * self.kappa)
        return loss


def build():
    return Huber(), (torch.randn(64, 256),)
""",
            """\
import torch
from torch import nn


class Huber(nn.Module):
    def __init__(self, kappa=1.0):
        super().__init__()
        self.kappa = kappa

    def forward(self, u):
        near = u.abs() <= self.kappa
        far = ~near
        loss = torch.where(
            near,
            0.5 * torch.where(near, u, 1).pow(2),
            self.kappa * (torch.where(far, u, 1).abs() - 0.5 * self.kappa),
        )
        return loss


def build():
    return Huber(), (torch.randn(64, 256),)
""",
        ),
        Example(
            "computed-where-it-is-defined",
            """\
import torch
from torch import nn


class Logs(nn.Module):
    def forward(self, x, y, used):
        out = torch.zeros_like(x)
        out[used] = torch.log(x[used]) / y[used]  #!
        return out


def build():
    return Logs(), (torch.rand(64, 256) + 0.1, torch.rand(64, 256) + 0.1, torch.rand(64, 256) < 0.7)
""",
            """\
import torch
from torch import nn


class Logs(nn.Module):
    def forward(self, x, y, used):
        out = torch.zeros_like(x)
        out = torch.where(used, torch.log(torch.where(used, x, 1)) / torch.where(used, y, 1), out)
        return out


def build():
    return Logs(), (torch.rand(64, 256) + 0.1, torch.rand(64, 256) + 0.1, torch.rand(64, 256) < 0.7)
""",
        ),
        Example(
            "mask-that-may-be-bytes",
            """\
import torch
from torch import nn


class Gates(nn.Module):
    def forward(self, x, y, inside):
        out = torch.zeros_like(x)
        outside = torch.logical_not(inside)
        out[inside] = x[inside] * y[inside]  #!
        out[outside] = -x[outside]  #!
        return out


def build():
    return Gates(), (torch.randn(64, 256), torch.randn(64, 256), torch.rand(64, 256) < 0.5)
""",
            """\
import torch
from torch import nn


class Gates(nn.Module):
    def forward(self, x, y, inside):
        out = torch.zeros_like(x)
        outside = torch.logical_not(inside)
        out = torch.where(inside, torch.where(inside, x, x.new_ones(())) * torch.where(inside, y, y.new_ones(())), out)
        out = torch.where(outside, -x, out)
        return out


def build():
    return Gates(), (torch.randn(64, 256), torch.randn(64, 256), torch.rand(64, 256) < 0.5)
""",
        ),
        Example(
            "a-weight-among-the-picked",
            """\
import torch
from torch import nn


class Tempered(nn.Module):
    def __init__(self):
        super().__init__()
        self.heat = nn.Parameter(torch.tensor(2.0))
        self.net = nn.Linear(64, 64)

    def forward(self, x, used):
        out = torch.zeros_like(x)
        rows = torch.zeros_like(x)
        rows[used[:, 0]] = self.net(x[used[:, 0]])
        out[used] = torch.exp(x[used] / self.heat)  #!
        return out + rows


def build():
    return Tempered(), (torch.randn(256, 64), torch.rand(256, 64) < 0.7)
""",
        ),
        Example(
            "mean-of-the-picked",
            """\
import torch
from torch import nn


class Centred(nn.Module):
    def forward(self, x, used):
        y = torch.zeros_like(x)
        y[used] = x[used] - x[used].amax()
        return y


def build():
    return Centred(), (torch.rand(64, 64), torch.rand(64, 64) < 0.6)
""",
        ),
        Example(
            "written-through-another-name",
            """\
import torch
from torch import nn


class Patch(nn.Module):
    def forward(self, x, other, mask):
        y = x.clone()
        z = y.view(-1)
        z[mask] = other[mask]  #!
        return y.tanh()


def build():
    return Patch(), (torch.rand(64, 64), torch.rand(4096), torch.rand(4096) < 0.5)
""",
        ),
        Example(
            "scalar-already-fills",
            """\
import torch
from torch import nn


class Clean(nn.Module):
    def forward(self, x):
        y = x.clone()
        y[y > 1.5] = 0.0
        return y.mean(dim=-1)


def build():
    return Clean(), (torch.randn(64, 256),)
""",
        ),
        Example(
            "few-rows",
            """\
import torch
from torch import nn


class Few(nn.Module):
    def forward(self, x, other, mask):
        y = x.clone()
        y[mask] = other[mask]
        return y.sum(dim=1)


def build():
    return Few(), (torch.randn(200, 64), torch.randn(200, 64), torch.arange(200) < 3)
""",
        ),
        Example(
            "elements-in-a-list",
            """\
import torch
from torch import nn


class Pick(nn.Module):
    def forward(self, x, mask):
        return x[mask]


def build():
    return Pick(), (torch.randn(64, 64), torch.rand(64, 64) < 0.5)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node in walk(sites.tree.module):
            match: Match | None = None
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                match = _assigned(sites, node)
            elif isinstance(node, ast.Call):
                match = _reduced(sites, node) or _selected(sites, node)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                match = _broadcast_index(sites, node)
            if match is not None:
                yield match


class _Picked:
    """What the run saw of an expression `x[mask]`: the shapes of both, and how many elements were picked."""

    def __init__(self, sites: Sites, node: ast.Subscript, operator: str) -> None:
        items = index_items(node)
        op = sites.op(node, operator)
        found = sites.inner_op(node, "aten::nonzero")
        self.mask = items[0] if items else node.slice  # `x[()]` has none
        self.seen = len(items) == 1 and op is not None and found is not None and bool(found.shapes)
        self.base: Shape = op.shapes[0] if op is not None and op.shapes else ()
        self.shape: Shape = found.shapes[0] if found is not None and found.shapes else ()
        self.written: Shape | None = op.shapes[2] if op is not None and len(op.shapes) > 2 else None
        self.count = _count(sites, node, len(self.shape))

    @property
    def fits(self) -> bool:
        """The mask covers the tensor's first dimensions."""
        return self.seen and bool(self.shape) and self.base[: len(self.shape)] == self.shape

    @property
    def density(self) -> float:
        return self.count / max(math.prod(self.shape), 1)

    @property
    def trailing(self) -> int:
        return len(self.base) - len(self.shape)


def _count(sites: Sites, node: ast.Subscript, rank: int) -> int:
    cost = sites.cost(node)
    for op in cost.ops if cost is not None else ():
        if op.name == "aten::select" and op.shapes and len(op.shapes[0]) == 2 and op.shapes[0][1] == rank:
            return op.shapes[0][0]
    return 0


def _message(sites: Sites, node: ast.expr | ast.stmt, picked: _Picked, searches: int, share: float, end: str) -> str:
    return (
        f"`{sites.tree.text(node)}` lists the true elements of its mask {times(searches)} and moves "
        f"{picked.count:,} of {math.prod(picked.shape):,} one by one, {percent(share)} of the forward: {end}"
    )


# -- an assignment to what a mask picks


@dataclass(frozen=True)
class _Written:
    """A statement that writes to what a mask picks."""

    node: ast.Assign | ast.AugAssign
    target: ast.Subscript
    picked: _Picked
    whole: _Whole


def _written(sites: Sites, node: ast.AST) -> _Written | None:
    if isinstance(node, ast.Assign):
        target = node.targets[0] if len(node.targets) == 1 else None
    else:
        target = node.target if isinstance(node, ast.AugAssign) else None
    if not isinstance(node, (ast.Assign, ast.AugAssign)) or not isinstance(target, ast.Subscript):
        return None
    picked = _Picked(sites, target, "aten::index_put_")
    if not picked.fits or (picked.trailing and picked.density < LEAST_ROWS):
        return None
    whole = _whole_value(sites, node, target, node.value, picked)
    return _Written(node, target, picked, whole) if whole is not None else None


def _assigned(sites: Sites, node: ast.Assign | ast.AugAssign) -> Match | None:
    written = _written(sites, node)
    if written is None or _is_rest(sites, written):
        return None
    picked, rest = written.picked, _rest(sites, written)
    share = sites.share(node, *([rest.node] if rest is not None else []))
    fix, obstacle = _rest_fix(sites, written, rest) if rest is not None else _assignment_fix(sites, written)
    searches = sum(isinstance(n, ast.Subscript) and sites.inner_op(n, "aten::nonzero") is not None for n in walk(node))
    if isinstance(node, ast.AugAssign):
        searches += 1
    message = _message(sites, node, picked, searches, share, "`torch.where` reads each element once, in order")
    return Match(
        sites.source.span(node),
        message if fix else f"{message}. No automatic fix: {obstacle}",
        share,
        {"elements": picked.count, "mask_elements": math.prod(picked.shape)},
        (Related(sites.source.span(rest.node), "the rest of the elements"),) if rest is not None else (),
        (fix,) if fix else (),
    )


@dataclass(frozen=True)
class _Whole:
    """The text of a value for all elements instead of the picked ones, and what keeps a fix from using it."""

    text: str
    obstacle: str = ""


def _whole_value(
    sites: Sites, node: ast.Assign | ast.AugAssign, target: ast.Subscript, value: ast.expr, picked: _Picked
) -> _Whole | None:
    """What is written, for all elements instead of the picked ones; None if it does not say so element by element."""
    whole = _unpicked(sites, value, target, picked)
    if isinstance(node, ast.Assign):
        if whole is None and picked.written is not None and 0 < len(picked.written) <= picked.trailing:
            # One row for all: it has no dimension of the picked elements.
            same = is_repeatable(value) and not _reads_mask(sites, value, target)
            whole = _Whole(sites.tree.text(value)) if same else None
        return None if isinstance(value, ast.Constant) else whole
    sign = _SIGNS.get(type(node.op))
    constant = isinstance(value, ast.Constant)
    if whole is None or sign is None or not (constant or sign in "+-"):
        return None
    inner = whole.text if isinstance(value, (ast.Constant, ast.Subscript)) else f"({whole.text})"
    return _Whole(f"{sites.tree.text(target.value)} {sign} {inner}", whole.obstacle)


def _reads_mask(sites: Sites, value: ast.expr, target: ast.Subscript) -> bool:
    mask = sites.tree.text(target.slice)
    return any(isinstance(n, ast.Subscript) and sites.tree.text(n.slice) == mask for n in walk(value))


def _unpicked(sites: Sites, value: ast.expr, target: ast.Subscript, picked: _Picked) -> _Whole | None:
    """`z * 2` for `z[mask] * 2`, and so for all that is computed element by element; None for anything else.

    Where the gradient of a left-out element may be infinite, which the zero from `torch.where` does not undo, the
    element is replaced before anything is computed with it.
    """
    number = value.operand if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else value
    if isinstance(number, ast.Constant) and type(number.value) in (int, float):
        return _Whole(sites.tree.text(value))
    torch = torch_name(sites.tree.module)
    picks = [n for n in walk(value) if isinstance(n, ast.Subscript) and _is_pick(sites, n, target, picked)]
    if torch is None or not _is_elementwise(sites, value, picks):
        return None
    if _is_straight(sites, value, picks):
        return _Whole(splice(sites.source, value, {n: _atom(sites, n.value) for n in picks}))
    mask = _with_dimensions(sites, picked.mask, picked.trailing)
    parts: dict[ast.expr, str] = {}
    for pick in picks:
        one = f"{_atom(sites, pick.value)}.new_ones(())" if _may_be_boolean(sites, value, picks) else "1"
        parts[pick] = f"{torch}.where({mask}, {sites.tree.text(pick.value)}, {one})"
    unclear = next(_unclear(sites, value, picks), None) if _is_unbounded(sites, value, picks) else None
    obstacle = (
        f"`{sites.tree.text(unclear)}` may be a tensor, whose gradient would take in what the mask leaves out"
        if unclear is not None
        else ""
    )
    return _Whole(splice(sites.source, value, parts), obstacle)


def _is_pick(sites: Sites, node: ast.Subscript, target: ast.Subscript, picked: _Picked) -> bool:
    """Whether `node` is `z[mask]` for the mask of `target`."""
    if not isinstance(node.ctx, ast.Load) or sites.tree.text(node.slice) != sites.tree.text(target.slice):
        return False
    other = _Picked(sites, node, "aten::index")
    fits = other.base == picked.base and (other.fits or sites.tree.text(node) == sites.tree.text(target))
    return fits and is_repeatable(node.value)


def _operands(sites: Sites, node: ast.expr) -> list[ast.expr] | None:
    """What an operator that works element by element is given; None for anything else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return [node.operand]
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)):
        return [node.left, node.right]
    if not isinstance(node, ast.Call) or _function(sites, node) not in _STRAIGHT | _BOUNDED | _UNBOUNDED:
        return None
    if any(k.arg in {"out", "inplace", None} for k in node.keywords):
        return None
    given = [*node.args, *(k.value for k in node.keywords)]
    method = isinstance(node.func, ast.Attribute) and torch_function(sites.tree.module, node.func) is None
    return [node.func.value, *given] if method and isinstance(node.func, ast.Attribute) else given


def _function(sites: Sites, call: ast.Call) -> str:
    """`pow` for `x.pow(2)`, `torch.pow(x, 2)` and the like."""
    name = torch_function(sites.tree.module, call.func)
    return name or (call.func.attr if isinstance(call.func, ast.Attribute) else "")


def _is_elementwise(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether `node` computes with picked elements one by one, and with single numbers."""
    if node in picks:
        return True
    operands = _operands(sites, node)
    if operands is None:
        return False
    moving = [o for o in operands if _is_elementwise(sites, o, picks)]
    still = [o for o in operands if o not in moving]
    cost = sites.cost(node)
    ran = [op for op in cost.ops if op.outermost and op.shapes] if cost is not None else []
    # Whatever else took part had no dimensions in the run.
    single = bool(ran) and all(sum(shape != () for shape in op.shapes) == len(moving) for op in ran)
    return bool(moving) and single and all(is_repeatable(o) and not _has_pick(o, picks) for o in still)


def _has_pick(node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    return any(n in picks for n in walk(node))


def _is_literal(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _is_straight(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether the gradient is finite for every element, also an infinite one."""
    operands = _operands(sites, node) if node not in picks else None
    if operands is None:
        return True
    constants = [_is_literal(o) for o in operands]
    if isinstance(node, ast.Call):
        known = _function(sites, node) in _STRAIGHT and all(constants[1:])
    elif isinstance(node, ast.BinOp):
        factor = isinstance(node.op, ast.Mult) and any(constants)
        known = factor or isinstance(node.op, (ast.Add, ast.Sub)) or (isinstance(node.op, ast.Div) and constants[1])
    else:
        known = True
    return known and all(_is_straight(sites, o, picks) for o in operands)


def _is_unbounded(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether a finite element may give something infinite, as with `log` and in a denominator."""
    operands = _operands(sites, node) if node not in picks else None
    if operands is None:
        return False
    called = _function(sites, node) if isinstance(node, ast.Call) else ""
    power = called == "pow" or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow))
    divided = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not _is_literal(operands[1])
    fractional = power and not all((integer(o) or 0) > 0 for o in operands[1:])
    return called in _UNBOUNDED or divided or fractional or any(_is_unbounded(sites, o, picks) for o in operands)


def _unclear(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> Iterator[ast.expr]:
    """The single values in `node` that may be tensors: a gradient for them adds up all elements."""
    if node in picks:
        return
    operands = _operands(sites, node)
    if operands is None:
        if not is_number(sites.tree, node):
            yield node
        return
    for operand in operands:
        yield from _unclear(sites, operand, picks)


def _may_be_boolean(sites: Sites, node: ast.expr, picks: Sequence[ast.expr]) -> bool:
    """Whether a product is of picked elements alone: it is boolean if they are, and must not become another dtype."""
    multiplied = [n for n in walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mult)]
    called = [n for n in walk(node) if isinstance(n, ast.Call) and _function(sites, n) in {"mul", "multiply"}]
    return bool(called) or any(_has_pick(n.left, picks) and _has_pick(n.right, picks) for n in multiplied)


def _atom(sites: Sites, node: ast.expr) -> str:
    return sites.tree.text(node) if is_atom(node) else f"({sites.tree.text(node)})"


def _assignment_fix(sites: Sites, written: _Written) -> tuple[Fix | None, str]:
    tree, source, node, picked = sites.tree, sites.source, written.node, written.picked
    place, torch = written.target.value, torch_name(tree.module)
    if written.whole.obstacle:
        return None, written.whole.obstacle
    if not isinstance(place, ast.Name):
        return None, f"`{tree.text(place)}` may be seen from elsewhere, and has to change in place"
    made = private_since(sites, node, place.id)
    if made is None:
        return None, f"`{place.id}` may share its memory with another tensor, which has to change with it"
    if torch is None or not is_repeatable(picked.mask) or has_comment(source, *offsets(source, node)):
        return None, "the mask cannot be evaluated on its own"
    mask = _with_dimensions(sites, picked.mask, picked.trailing)
    base = _cloned(sites, node, made, place.id)
    old = tree.text(base) if base is not None else place.id
    edits = [replace_node(source, node, f"{place.id} = {torch}.where({mask}, {written.whole.text}, {old})")]
    if base is not None:
        edits.append(replace_statements(tree, [made], []))
    return _selected_fix(sites, edits)


def _selected_fix(sites: Sites, edits: Sequence[Edit]) -> tuple[Fix | None, str]:
    found = checked(sites.source, edits)
    if found is None:
        return None, "the text around it does not allow it"
    return Fix("Select with torch.where", "safe", found), ""


def _with_dimensions(sites: Sites, mask: ast.expr, trailing: int) -> str:
    text = sites.tree.text(mask)
    if not trailing:
        return text
    plain = isinstance(mask, (ast.Name, ast.Attribute, ast.Call))
    return f"{text if plain else f'({text})'}[..., {', '.join(['None'] * trailing)}]"


def _cloned(sites: Sites, node: ast.stmt, made: ast.Assign, name: str) -> ast.expr | None:
    """`x` where the statement just above is `y = x.clone()` and nothing else needs the copy."""
    block = sites.tree.block(node)
    value = made.value
    if made not in block or block.index(made) != block.index(node) - 1 or not stands_alone(sites.tree, made):
        return None
    if not isinstance(value, ast.Call) or value.args or value.keywords or "#" in sites.source.line(made.lineno):
        return None
    if not isinstance(value.func, ast.Attribute) or value.func.attr != "clone" or dotted(value.func.value) is None:
        return None
    reads = [n for n in walk(node) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]
    return value.func.value if len(reads) == 1 and isinstance(node, ast.Assign) else None


# -- two assignments that share all elements between them


def _rest(sites: Sites, written: _Written) -> _Written | None:
    """The next statement, if it writes to all elements that `written` leaves out, and both can be one selection."""
    block = sites.tree.block(written.node)
    below = block[block.index(written.node) + 1 :][:1]
    rest = _written(sites, below[0]) if below else None
    if rest is None or written.whole.obstacle or rest.whole.obstacle or written.picked.trailing or rest.picked.trailing:
        return None
    place, here = written.target.value, (written.node, rest.node)
    plain = all(isinstance(n, ast.Assign) and is_repeatable(n.value) for n in here)
    if (
        not plain
        or not isinstance(place, ast.Name)
        or dotted(place) != dotted(rest.target.value)
        or not all(stands_alone(sites.tree, n) for n in here)
    ):
        return None
    if private_since(sites, written.node, place.id) is None or torch_name(sites.tree.module) is None:
        return None
    masks = written.picked.mask, rest.picked.mask
    if any(place.id in names_read(mask) for mask in masks) or _reads_whole(sites, rest, place.id):
        return None
    fits = all(is_repeatable(m) for m in masks) and not any(
        has_comment(sites.source, *offsets(sites.source, n)) for n in here
    )
    return rest if fits and _are_complements(sites, *masks, rest.node) else None


def _reads_whole(sites: Sites, written: _Written, name: str) -> bool:
    """Whether what is written depends on more elements of `name` than those that the mask picks."""
    mask = sites.tree.text(written.target.slice)
    reads = [n for n in walk(written.node.value) if isinstance(n, ast.Name) and n.id == name]
    around = [sites.tree.parent(read) for read in reads]
    return not all(isinstance(n, ast.Subscript) and sites.tree.text(n.slice) == mask for n in around)


def _is_rest(sites: Sites, written: _Written) -> bool:
    block = sites.tree.block(written.node)
    at = block.index(written.node)
    above = _written(sites, block[at - 1]) if at else None
    rest = _rest(sites, above) if above is not None and not _is_rest(sites, above) else None
    return rest is not None and rest.node is written.node


def _rest_fix(sites: Sites, written: _Written, rest: _Written) -> tuple[Fix | None, str]:
    tree, place = sites.tree, written.target.value
    assert isinstance(place, ast.Name)
    mask = tree.text(written.picked.mask)
    called, new, other = f"{place.id} = {torch_name(tree.module)}.where(", written.whole.text, rest.whole.text
    line = f"{called}{mask}, {new}, {other})"
    begin, end = offsets(sites.source, written.node)[0], offsets(sites.source, rest.node)[1]
    commented = has_comment(sites.source, begin, end) or "#" in sites.source.line(rest.node.end_lineno or 0)
    indent = sites.source.indentation(written.node.lineno)
    edits = [replace_statements(tree, [written.node, rest.node], [line])]
    if commented or len(indent) + len(line) > _LONG:
        more = "\t" if "\t" in indent else "    "
        edits = [
            replace_statements(tree, [written.node], [called, f"{more}{mask},", f"{more}{new},"]),
            replace_statements(tree, [rest.node], [f"{more}{other},"]),
            insert_after(tree, rest.node, [")"]),
        ]
    made = private_since(sites, written.node, place.id)
    if made is not None and _is_needless(sites, made, written.node, rest.node, place.id):
        edits.append(replace_statements(tree, [made], []))
    return _selected_fix(sites, edits)


def _is_needless(sites: Sites, made: ast.Assign, first: ast.stmt, last: ast.stmt, name: str) -> bool:
    """Whether nothing needs the tensor `name` that `made` makes once all of its elements are given at `last`."""
    block = sites.tree.block(made)
    func = made.value.func if isinstance(made.value, ast.Call) else None
    called = func.attr if isinstance(func, ast.Attribute) else dotted(func) if func is not None else None
    if called not in _MADE or first not in block or not stands_alone(sites.tree, made):
        return False
    stretch = block[block.index(made) + 1 : block.index(last) + 1]
    written = [n for s in (first, last) if isinstance(s, ast.Assign) for t in s.targets for n in walk(t)]
    reads = [n for s in stretch for n in walk(s) if isinstance(n, ast.Name) and n.id == name and n not in written]
    return not reads and not has_comment(sites.source, *offsets(sites.source, made))


def _are_complements(sites: Sites, one: ast.expr, other: ast.expr, last: ast.stmt) -> bool:
    """Whether two masks are boolean and each is true where the other is not, from where they are made to `last`."""
    for mask, opposite in ((one, other), (other, one)):
        value = _value_until(sites, mask, last)
        inverted = _inverted(sites, value) if value is not None else None
        if inverted is not None and ast.dump(inverted) == ast.dump(opposite):
            return _is_boolean(sites, opposite, last)
    return False


def _value_until(sites: Sites, mask: ast.expr, last: ast.stmt) -> ast.expr | None:
    """What a mask was made of, if it is still that at `last`."""
    if not isinstance(mask, ast.Name):
        return mask
    function = sites.tree.function(mask)
    made = definition(sites.tree, function, mask.id) if function is not None else None
    block = sites.tree.block(last)
    if made is None or function is None or made not in block or [dotted(t) for t in made.targets] != [mask.id]:
        return None
    shared = {s for place in (mask.id, *may_alias(made.value)) for s in aliases(function, place)}
    between = block[block.index(made) + 1 : block.index(last)]
    changed = [place for statement in between for _, place in changes(sites, statement)]
    return None if any(p is None or any(overlap(p, s) for s in shared) for p in changed) else made.value


def _inverted(sites: Sites, node: ast.expr) -> ast.expr | None:
    """`m` for `~m` and `torch.logical_not(m)`."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        return node.operand
    if not isinstance(node, ast.Call) or node.keywords or _function(sites, node) not in {"logical_not", "bitwise_not"}:
        return None
    if torch_function(sites.tree.module, node.func) is not None:
        return node.args[0] if len(node.args) == 1 else None
    return node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None


def _is_boolean(sites: Sites, mask: ast.expr, last: ast.stmt) -> bool:
    """Whether a mask is boolean for certain: `~` of another dtype does not turn true into false."""
    value = _value_until(sites, mask, last)
    if isinstance(value, ast.Compare):
        return True
    if isinstance(value, ast.Call):
        return _function(sites, value) in _ASKING
    if isinstance(value, ast.BinOp) and isinstance(value.op, (ast.BitAnd, ast.BitOr, ast.BitXor)):
        return _is_boolean(sites, value.left, last) and _is_boolean(sites, value.right, last)
    inverted = _inverted(sites, value) if value is not None else None
    return inverted is not None and _is_boolean(sites, inverted, last)


# -- a sum of what a mask picks


def _reduced(sites: Sites, call: ast.Call) -> Match | None:
    """A sum or mean over all picked elements, of `x[mask]` itself or of the name that the line above gave it."""
    found = _reduction(sites, call)
    if found is None:
        return None
    name, value = found
    named = value if isinstance(value, ast.Name) else None
    bound = _bound_above(sites, call, named) if named is not None else None
    node = bound.value if bound is not None else value
    if not isinstance(node, ast.Subscript):
        return None
    picked = _Picked(sites, node, "aten::index")
    torch = torch_name(sites.tree.module)
    if not picked.fits or picked.trailing or torch is None or not is_repeatable(picked.mask):
        return None
    mask, base = sites.tree.text(picked.mask), sites.tree.text(node.value)
    text = f"{torch}.where({mask}, {base}, 0).sum()"
    if name == "mean":
        counted = mask if isinstance(picked.mask, (ast.Name, ast.Attribute)) else f"({mask})"
        text = f"{text} / {counted}.sum()"
        if not isinstance(sites.tree.parent(call), (ast.Return, ast.Assign)):
            text = f"({text})"
    edits = [replace_node(sites.source, call, text)]
    if bound is not None:
        edits.append(replace_statements(sites.tree, [bound], []))
    fine = not has_comment(sites.source, *offsets(sites.source, call))
    checked_edits = checked(sites.source, edits) if fine else None
    share = sites.share(call, node)
    return Match(
        sites.source.span(node),
        _message(sites, node, picked, 1, share, "the elements can be added up where they are"),
        share,
        {"elements": picked.count, "mask_elements": math.prod(picked.shape)},
        (),
        (Fix("Add up without picking", "safe", checked_edits),) if checked_edits else (),
    )


def _reduction(sites: Sites, call: ast.Call) -> tuple[str, ast.expr] | None:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr not in {"sum", "mean"} or call.keywords:
        return None
    if is_torch_function(sites.tree.module, func):
        return (func.attr, call.args[0]) if len(call.args) == 1 else None
    return (func.attr, func.value) if not call.args else None


def _bound_above(sites: Sites, call: ast.Call, name: ast.Name) -> ast.Assign | None:
    """The statement right above that binds the name, if the call is all that reads it."""
    function = sites.tree.function(call)
    statement = definition(sites.tree, function, name.id) if function is not None else None
    here = sites.tree.statement(call)
    if function is None or statement is None or not stands_alone(sites.tree, statement):
        return None
    block = sites.tree.block(here)
    reads = sum(isinstance(n, ast.Name) and n.id == name.id and n is not name for n in walk(function))
    above = statement in block and block.index(statement) == block.index(here) - 1
    plain = isinstance(here, (ast.Assign, ast.Return)) and "#" not in sites.source.line(statement.lineno)
    return statement if above and plain and reads == 1 else None


# -- masked_select with a mask that is the same along a dimension


def _selected(sites: Sites, call: ast.Call) -> Match | None:
    func = call.func
    if not isinstance(func, ast.Attribute) or func.attr != "masked_select" or call.keywords:
        return None
    if is_torch_function(sites.tree.module, func):
        base, mask = (call.args[0], call.args[1]) if len(call.args) == 2 else (None, None)
    else:
        base, mask = (func.value, call.args[0]) if len(call.args) == 1 else (None, None)
    op = sites.op(call, "aten::masked_select")
    if base is None or mask is None or op is None or len(op.shapes) < 2:
        return None
    return _broadcast(sites, call, base, mask, op.shapes[0], "`masked_select`")


def _broadcast_index(sites: Sites, node: ast.Subscript) -> Match | None:
    picked = _Picked(sites, node, "aten::index")
    if not picked.fits or picked.trailing:
        return None
    return _broadcast(sites, node, node.value, picked.mask, picked.base, "indexing")


def _broadcast(sites: Sites, node: ast.expr, base: ast.expr, mask: ast.expr, shape: Shape, how: str) -> Match | None:
    narrow = _narrow(sites, mask)
    if narrow is None:
        return None
    core, core_shape = narrow
    if not core_shape or core_shape != shape[: len(core_shape)] or len(core_shape) >= len(shape):
        return None
    share = sites.share(node)
    rest = math.prod(shape[len(core_shape) :])
    fix = None
    if is_repeatable(core) and not has_comment(sites.source, *offsets(sites.source, node)):
        text = sites.tree.text(base)
        plain = isinstance(base, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        new = f"{text if plain else f'({text})'}[{sites.tree.text(core)}].flatten()"
        edits = checked(sites.source, [replace_node(sites.source, node, new)])
        fix = Fix("Index with the narrow mask", "safe", edits) if edits else None
    return Match(
        sites.source.span(node),
        f"The mask is the same along {rest} elements, and {how} looks at all {math.prod(shape):,} of them, "
        f"{percent(share)} of the forward: indexing with `{sites.tree.text(core)}` picks the same ones in one piece",
        share,
        {"mask_elements": math.prod(core_shape), "elements": math.prod(shape)},
        (),
        (fix,) if fix else (),
    )


def _narrow(sites: Sites, mask: ast.expr) -> tuple[ast.expr, Shape] | None:
    """The mask without the dimensions of size 1 (and their expansion) at its end, and its shape in the run."""
    if isinstance(mask, ast.Name):
        function = sites.tree.function(mask)
        statement = definition(sites.tree, function, mask.id) if function is not None else None
        if statement is None or function is None or not _unchanged(sites, statement, mask):
            return None
        mask = statement.value
    if isinstance(mask, ast.Call) and isinstance(mask.func, ast.Attribute):
        if mask.func.attr in {"expand_as", "expand", "repeat", "broadcast_to"} and _ones_first(mask):
            return _narrow(sites, mask.func.value) if not isinstance(mask.func.value, ast.Name) else None
        core = mask.func.value
        if mask.func.attr == "unsqueeze":
            op = sites.op(mask, "aten::unsqueeze")
            axis = integer(argument(mask, 0, "dim"))
            last = op is not None and bool(op.shapes) and axis in {-1, len(op.shapes[0])}
            return (core, op.shapes[0]) if last and op is not None else None
        if mask.func.attr in {"view", "reshape"} and [integer(a) for a in mask.args] == [-1, 1]:
            op = sites.op(mask, f"aten::{mask.func.attr}")
            flat = op is not None and bool(op.shapes) and len(op.shapes[0]) == 1
            return (core, op.shapes[0]) if flat and op is not None else None
    if isinstance(mask, ast.Subscript):
        items = index_items(mask)
        op = sites.op(mask, "aten::unsqueeze")
        if op is None or not op.shapes or len(items) < 2 or not _is_none(items[-1]):
            return None
        first = items[:-1]
        whole = all(isinstance(i, ast.Slice) and i.lower is i.upper is i.step is None for i in first)
        dots = len(first) == 1 and isinstance(first[0], ast.Constant) and first[0].value is ...
        if dots or (whole and len(first) == len(op.shapes[0])):
            return mask.value, op.shapes[0]
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _ones_first(call: ast.Call) -> bool:
    """Whether an expansion leaves all dimensions but the last as they are."""
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr in {"expand_as", "broadcast_to", "expand"}:
        return True
    return bool(call.args) and all(integer(a) == 1 for a in call.args[:-1])


def _unchanged(sites: Sites, statement: ast.Assign, read: ast.Name) -> bool:
    """Whether what the mask was made of is still bound to the same when it is read, without any loop."""
    here = sites.tree.statement(read)
    block = sites.tree.block(here)
    if statement not in block or here not in block:
        return False
    made_of = names_read(statement.value)
    between = block[block.index(statement) + 1 : block.index(here)]
    stored = {n.id for s in between for n in walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    changed = any(isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) for s in between for n in walk(s))
    return not (made_of & stored) and not changed
