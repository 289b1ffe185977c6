"""Elements picked out by a boolean mask and put back, where a selection would do."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from forwardlens.model import Fix, Related, Shape
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.escape import private_since
from forwardlens.rules.evidence import Sites, index_items, percent, sites_of
from forwardlens.rules.masked.picked import Picked, message_of, with_dimensions
from forwardlens.rules.masked.reduced import Reduced, reduced_at, reduced_fix, selected_from
from forwardlens.rules.masked.written import Written, is_rest, rest_fix, rest_of, selected_fix, written_in
from forwardlens.rules.operations import is_repeatable, torch_name
from forwardlens.source.dataflow import definition, names_read
from forwardlens.source.rewrite import (
    checked,
    has_comment,
    offsets,
    replace_node,
    replace_statements,
    stands_alone,
)
from forwardlens.source.tree import argument, dotted, integer, walk


class BooleanMaskCopy(Rule):
    """## What it does
    Finds elements that are picked by a boolean mask only to be written back or added up: `y[m] = z[m]`,
    `y[m] = row`, `y[m] = z[m].pow(2)`, `y[m] *= 2`, `x[m].mean()`, `masked_select(x, m).sum()`, and `masked_select`
    with a mask that is the same along a dimension.

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
        return torch.where(mask, error, 0).sum() / mask.count_nonzero()


def build():
    return Loss(), (torch.randn(64, 256), torch.rand(64, 256) < 0.7)
""",
        ),
        Example(
            "mean-over-a-broadcast-mask",
            """\
import torch
from torch import nn


def distance(x, y, seen):
    gap = (x - y).abs()
    picked = torch.masked_select(gap, seen)  #!
    if picked.numel() == 0:
        return x.sum() * 0
    return picked.mean()


class Loss(nn.Module):
    def forward(self, x, y):
        return distance(x, y, seen=y[:, :1] > 0.3)


def build():
    return Loss(), (torch.rand(4, 3, 96, 96), torch.rand(4, 3, 96, 96))
""",
            """\
import torch
from torch import nn


def distance(x, y, seen):
    gap = (x - y).abs()
    picked = torch.where(seen, gap, 0)
    if int(seen.expand_as(picked).count_nonzero()) == 0:
        return x.sum() * 0
    return picked.sum() / seen.expand_as(picked).count_nonzero()


class Loss(nn.Module):
    def forward(self, x, y):
        return distance(x, y, seen=y[:, :1] > 0.3)


def build():
    return Loss(), (torch.rand(4, 3, 96, 96), torch.rand(4, 3, 96, 96))
""",
        ),
        Example(
            "mask-changed-before-the-mean",
            """\
import torch
from torch import nn


class Loss(nn.Module):
    def forward(self, x, seen):
        picked = x[seen]  #!
        seen &= x > 0
        return picked.mean()


def build():
    return Loss(), (torch.randn(64, 256), torch.rand(64, 256) < 0.7)
""",
        ),
        Example(
            "spread-of-the-picked",
            """\
import torch
from torch import nn


class Spread(nn.Module):
    def forward(self, x, seen):
        picked = x[seen]
        return picked.mean() / picked.std()


def build():
    return Spread(), (torch.randn(64, 256), torch.rand(64, 256) < 0.7)
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
        calls = (node for node in walk(sites.tree.module) if isinstance(node, ast.Call))
        sums = [found for call in calls if (found := reduced_at(sites, call)) is not None]
        yield from (_reduced(sites, found) for found in sums)
        picked = {found.selection.node for found in sums}
        for node in walk(sites.tree.module):
            match: Match | None = None
            if node in picked:
                continue
            if isinstance(node, (ast.Assign, ast.AugAssign)):
                match = _assigned(sites, node)
            elif isinstance(node, ast.Call):
                match = _selected(sites, node)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                match = _broadcast_index(sites, node)
            if match is not None:
                yield match


# -- an assignment to what a mask picks


def _assigned(sites: Sites, node: ast.Assign | ast.AugAssign) -> Match | None:
    written = written_in(sites, node)
    if written is None or is_rest(sites, written):
        return None
    picked, rest = written.picked, rest_of(sites, written)
    share = sites.share(node, *([rest.node] if rest is not None else []))
    fix, obstacle = rest_fix(sites, written, rest) if rest is not None else _assignment_fix(sites, written)
    searches = sum(isinstance(n, ast.Subscript) and sites.inner_op(n, "aten::nonzero") is not None for n in walk(node))
    if isinstance(node, ast.AugAssign):
        searches += 1
    message = message_of(sites, node, picked, searches, share, "`torch.where` reads each element once, in order")
    return Match(
        sites.source.span(node),
        message if fix else f"{message}. No automatic fix: {obstacle}",
        share,
        {"elements": picked.count, "mask_elements": math.prod(picked.shape)},
        (Related(sites.source.span(rest.node), "the rest of the elements"),) if rest is not None else (),
        (fix,) if fix else (),
    )


def _assignment_fix(sites: Sites, written: Written) -> tuple[Fix | None, str]:
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
    mask = with_dimensions(sites, picked.mask, picked.trailing)
    base = _cloned(sites, node, made, place.id)
    old = tree.text(base) if base is not None else place.id
    edits = [replace_node(source, node, f"{place.id} = {torch}.where({mask}, {written.whole.text}, {old})")]
    if base is not None:
        edits.append(replace_statements(tree, [made], []))
    return selected_fix(sites, edits)


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


# -- a sum of what a mask picks


def _reduced(sites: Sites, found: Reduced) -> Match:
    pick = found.selection
    share = sites.share(found.call, pick.node)
    fix, obstacle = reduced_fix(sites, found)
    message = message_of(sites, pick.node, pick, 1, share, "the elements can be added up where they are")
    return Match(
        sites.source.span(pick.node),
        message if fix else f"{message}. No automatic fix: {obstacle}",
        share,
        {"elements": pick.count, "mask_elements": math.prod(pick.shape)},
        (),
        (fix,) if fix else (),
    )


# -- masked_select with a mask that is the same along a dimension


def _selected(sites: Sites, call: ast.Call) -> Match | None:
    selected = selected_from(sites, call)
    op = sites.op(call, "aten::masked_select")
    if selected is None or op is None or len(op.shapes) < 2:
        return None
    return _broadcast(sites, call, *selected, op.shapes[0], "`masked_select`")


def _broadcast_index(sites: Sites, node: ast.Subscript) -> Match | None:
    picked = Picked(sites, node, "aten::index")
    if not picked.fits or picked.trailing:
        return None
    return _broadcast(sites, node, node.value, picked.mask, picked.base, "indexing")


def _broadcast(sites: Sites, node: ast.expr, base: ast.expr, mask: ast.expr, shape: Shape, how: str) -> Match | None:
    narrow = _narrow(sites, mask)
    if narrow is None or not narrow.shape or narrow.shape != shape[: len(narrow.shape)]:
        return None
    if len(narrow.shape) >= len(shape):
        return None
    share = sites.share(node)
    rest = math.prod(shape[len(narrow.shape) :])
    fix = None
    if narrow.repeatable and not has_comment(sites.source, *offsets(sites.source, node)):
        text = sites.tree.text(base)
        plain = isinstance(base, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        new = f"{text if plain else f'({text})'}[{narrow.text}].flatten()"
        edits = checked(sites.source, [replace_node(sites.source, node, new)])
        fix = Fix("Index with the narrow mask", "safe", edits) if edits else None
    return Match(
        sites.source.span(node),
        f"The mask is the same along {rest} elements, and {how} looks at all {math.prod(shape):,} of them, "
        f"{percent(share)} of the forward: indexing with `{narrow.text}` picks the same ones in one piece",
        share,
        {"mask_elements": math.prod(narrow.shape), "elements": math.prod(shape)},
        (),
        (fix,) if fix else (),
    )


@dataclass(frozen=True)
class _Narrow:
    """A mask without the dimensions of size 1 at its end, and its shape in the run.

    `repeatable` if its text may be evaluated once more, `single` if the whole mask has one dimension of size 1 more.
    """

    text: str
    shape: Shape
    repeatable: bool
    single: bool = True


def _narrow(sites: Sites, mask: ast.expr) -> _Narrow | None:
    """What the mask shows again and again at its end, by `unsqueeze` and the like, also with its expansion."""
    if not isinstance(mask, ast.Name):
        return _narrowed(sites, mask)
    function = sites.tree.function(mask)
    statement = definition(sites.tree, function, mask.id) if function is not None else None
    made = _narrowed(sites, statement.value) if statement is not None else None
    if statement is None or made is None or (made.repeatable and _unchanged(sites, statement, mask)):
        return made
    return replace(made, text=f"{mask.id}.squeeze(-1)", repeatable=True) if made.single else None


def _narrowed(sites: Sites, mask: ast.expr) -> _Narrow | None:
    if isinstance(mask, ast.Call) and isinstance(mask.func, ast.Attribute):
        core = mask.func.value
        if mask.func.attr in {"expand_as", "expand", "repeat", "broadcast_to"} and _ones_first(mask):
            made = _narrowed(sites, core) if not isinstance(core, ast.Name) else None
            return None if made is None else replace(made, single=False)
        if mask.func.attr == "unsqueeze":
            op = sites.op(mask, "aten::unsqueeze")
            axis = integer(argument(mask, 0, "dim"))
            last = op is not None and bool(op.shapes) and axis in {-1, len(op.shapes[0])}
            return _core(sites, core, op.shapes[0]) if last and op is not None else None
        if mask.func.attr in {"view", "reshape"} and [integer(a) for a in mask.args] == [-1, 1]:
            op = sites.op(mask, f"aten::{mask.func.attr}")
            flat = op is not None and bool(op.shapes) and len(op.shapes[0]) == 1
            return _core(sites, core, op.shapes[0]) if flat and op is not None else None
    if isinstance(mask, ast.Subscript):
        items = index_items(mask)
        op = sites.op(mask, "aten::unsqueeze")
        if op is None or not op.shapes or len(items) < 2 or not _is_none(items[-1]):
            return None
        first = items[:-1]
        whole = all(isinstance(i, ast.Slice) and i.lower is i.upper is i.step is None for i in first)
        dots = len(first) == 1 and isinstance(first[0], ast.Constant) and first[0].value is ...
        if dots or (whole and len(first) == len(op.shapes[0])):
            return _core(sites, mask.value, op.shapes[0])
    return None


def _core(sites: Sites, core: ast.expr, shape: Shape) -> _Narrow:
    return _Narrow(sites.tree.text(core), shape, is_repeatable(core))


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
