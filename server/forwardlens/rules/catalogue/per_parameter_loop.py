"""Parameters, gradients or averages changed one tensor at a time."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import ClassVar, TypeGuard

from forwardlens.model import Edit, ExpressionCost, Fix
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.callers import by_loop, only_call
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.repeated import body, head, in_rounds, place
from forwardlens.rules.rounds import first_of_the_costliest, is_small, outermost, works
from forwardlens.source.dataflow import is_inplace, names_bound
from forwardlens.source.rewrite import checked, has_comment, offsets, replace_statements, stands_alone
from forwardlens.source.tree import Function, Looping, dotted, walk

_LISTING = frozenset({"parameters", "named_parameters", "buffers", "named_buffers", "state_dict", "param_groups"})
# Through so many helpers is followed what runs behind a loop.
_DEPTH = 4
_STORING = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})


class PerParameterLoop(Rule):
    """## What it does
    Finds loops that zero, clip, average or update parameters or gradients one tensor at a time.

    ## Why it costs
    A model has hundreds of tensors, many of them small. Every round pays a few operators per tensor, which is mostly
    dispatch. PyTorch's `torch._foreach_*` functions take whole lists, and the optimisers, `clip_grad_norm_` and
    `zero_grad` use them.

    ## When to ignore it
    When the tensors are few or large, unless they are zeroed. On a CPU the list functions save the Python and dispatch
    cost only.

    ## Fix safety
    Zeroing is replaced by `zero_grad()`, which drops the gradients, as safe if a backward follows in the same
    function, or behind its only call, and nothing else in the file reads `.grad` before it. A parameter without a
    gradient then keeps None, so that an optimiser skips it where it would have seen zeros: with any but plain SGD the
    fix is unsafe. Everything else is only explained, because lists must agree in dtype and device, and integer buffers
    need a copy where others take an average.
    """

    name: ClassVar[str] = "per-parameter-loop"
    summary: ClassVar[str] = "Parameters or gradients changed one tensor at a time"
    threshold_factor: ClassVar[float] = 0.5
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "zeroing",
            """\
import torch
from torch import nn


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(24)))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def forward(self, x):
        for p in self.net.parameters():
            if p.grad is not None:
                p.grad.zero_()  #!
        loss = self.net(x).square().mean()
        loss.backward()
        self.opt.step()
        return loss.detach()


def build():
    return Trainer(), (torch.randn(2, 4),)
""",
            """\
import torch
from torch import nn


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(24)))
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def forward(self, x):
        self.net.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.opt.step()
        return loss.detach()


def build():
    return Trainer(), (torch.randn(2, 4),)
""",
        ),
        Example(
            "zeroing-in-a-helper",
            """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*[nn.Linear(256, 256) for _ in range(3)])
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def clear(self):
        for p in self.net.parameters():
            if p.grad is not None:
                p.grad.detach_()
                p.grad.zero_()  #!

    def forward(self, x):
        self.clear()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build():
    return Step(), (torch.randn(2, 256),)
""",
            """\
import torch
from torch import nn


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*[nn.Linear(256, 256) for _ in range(3)])
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def clear(self):
        self.net.zero_grad()

    def forward(self, x):
        self.clear()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def build():
    return Step(), (torch.randn(2, 256),)
""",
        ),
        Example(
            "zeroing-a-list",
            """\
import torch
from torch import nn


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(24)))
        self.weights = list(self.net.parameters())

    def forward(self, x):
        for name, p in self.net.named_parameters():
            if p.grad is not None and name:
                p.grad.detach_()
                p.grad.zero_()  #!
        loss = self.net(x).square().mean()
        loss.backward()
        return loss.detach()


def build():
    return Trainer(), (torch.randn(2, 4),)
""",
            """\
import torch
from torch import nn


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(24)))
        self.weights = list(self.net.parameters())

    def forward(self, x):
        for name, p in self.net.named_parameters():
            if p.grad is not None and name:
                p.grad = None
        loss = self.net(x).square().mean()
        loss.backward()
        return loss.detach()


def build():
    return Trainer(), (torch.randn(2, 4),)
""",
        ),
        Example(
            "average",
            """\
import torch
from torch import nn


class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.live = nn.ParameterList(torch.randn(8) for _ in range(24))
        self.kept = [p.detach().clone() for p in self.live]

    @torch.no_grad()
    def forward(self, rate):
        for kept, live in zip(self.kept, self.live):
            kept.mul_(1 - rate).add_(live, alpha=rate)  #!
        return torch.stack(self.kept)


def build():
    return Average(), (0.1,)
""",
        ),
        Example(
            "norm-of-the-weights",
            """\
import torch
from torch import nn


class Penalty(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(24)))

    def forward(self):
        return sum(p.square().sum() for p in self.net.parameters())  #!


def build():
    return Penalty(), ()
""",
        ),
        Example(
            "gradient-read-before-backward",
            """\
import torch
from torch import nn


class Penalised(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(*(nn.Linear(4, 4) for _ in range(24)))
        for p in self.net.parameters():
            p.grad = torch.zeros_like(p)

    def forward(self, x):
        for p in self.net.parameters():
            p.grad.zero_()  #!
        self.net[0].weight.grad.add_(0.01)
        loss = self.net(x).square().mean()
        loss.backward()
        return loss.detach()


def build():
    return Penalised(), (torch.randn(2, 4),)
""",
        ),
        Example(
            "few-tensors",
            """\
import torch
from torch import nn


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, x):
        for p in self.net.parameters():
            if p.grad is not None:
                p.grad.zero_()
        loss = self.net(x).square().mean()
        loss.backward()
        return loss.detach()


def build():
    return Small(), (torch.randn(2, 4),)
""",
        ),
        Example(
            "rows-of-a-tensor",
            """\
import torch
from torch import nn


class Rows(nn.Module):
    def forward(self, x):
        x = x.clone()
        for row in x:
            row.mul_(2.0)
        return x


def build():
    return Rows(), (torch.randn(24, 4),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        nodes = {n: c for n, c in sites.items() if in_rounds(c) and _touches(c)}
        for loop, work in by_loop(sites, nodes).items():
            assert isinstance(loop, Looping)
            # Zeros that are not written save more the more there are; anything else has to be done, only in one go.
            work = work if _zeroing(loop) else [n for n in work if is_small(nodes[n])]
            if work and _over_parameters(sites, loop):
                yield _match(sites, loop, work)
                yield from _zeroed_behind(sites, loop)


def _touches(cost: ExpressionCost) -> bool:
    return works(cost) or any(op.name in _STORING for op in outermost(cost))


def _over_parameters(sites: Sites, loop: Looping) -> bool:
    """Whether a loop runs over a collection of tensors that it changes, or over a module's parameters."""
    if isinstance(loop, ast.While):
        return False
    heads = [(loop.target, loop.iter)] if isinstance(loop, (ast.For, ast.AsyncFor)) else []
    heads += [] if isinstance(loop, (ast.For, ast.AsyncFor)) else [(g.target, g.iter) for g in loop.generators]
    names = {name for target, _ in heads for name in names_bound(target)}
    if sites.op(loop, "aten::unbind") is not None:
        # The slices of a tensor are another matter.
        return False
    for _, iterable in heads:
        if any(isinstance(n, ast.Attribute) and n.attr in _LISTING for n in walk(iterable)):
            return True
        if any(isinstance(n, ast.Constant) and n.value == "params" for n in walk(iterable)):
            return True
        if any(op.name == "aten::unbind" for _, cost in sites.inside(iterable) for op in cost.ops):
            return False
        if isinstance(iterable, ast.Call) and dotted(iterable.func) == "range":
            return False
    return any(_changes_itself(n, names) for part in body(loop) for n in walk(part))


def _changes_itself(node: ast.AST, names: set[str]) -> bool:
    """`p.grad`, `p.add_(...)`, `p.data.copy_(...)`, `p -= ...` of a loop's variable."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
        return node.attr == "grad" or is_inplace(node.attr)
    if isinstance(node, ast.Attribute) and is_inplace(node.attr):
        return dotted(node.value) in {f"{name}.data" for name in names}
    if isinstance(node, ast.AugAssign):
        return dotted(node.target) in {*names, *(f"{name}.data" for name in names)}
    return False


def _match(sites: Sites, loop: Looping, work: list[ast.AST]) -> Match:
    zeroing = _zeroing(loop)
    zeros = {n for s in zeroing if _is_zero(s) for n in walk(s)}
    known = {n: cost for n in work if (cost := sites.cost(n)) is not None}
    hot = first_of_the_costliest({n: cost for n, cost in known.items() if n in zeros} or known)
    tensors = max((c.calls_per_entry for n in work if (c := sites.cost(n)) is not None), default=0)
    calls = sum(op.calls for n in work if (c := sites.cost(n)) is not None for op in outermost(c))
    share = sites.share(loop)
    message = (
        f"This loop sets {tensors} gradients to zero one by one, {percent(share)} of the forward: it costs nothing to "
        "drop them"
        if zeroing
        else f"This loop goes through {tensors} tensors one by one and runs {calls} small operators, {percent(share)} "
        "of the forward: each of them costs its dispatch"
    )
    fix: Fix | None = None
    try:
        if not zeroing or not isinstance(loop, ast.For):
            raise RefusedError(_advice(loop))
        fix = _without_gradients(sites, _dropped(sites, loop, zeroing))
    except RefusedError as refused:
        message = f"{message}; {refused}"
    return Match(
        place(sites, hot),
        message,
        share,
        {"tensors": tensors, "operators": calls},
        (head(sites, loop),),
        (fix,) if fix else (),
    )


def _advice(loop: Looping) -> str:
    methods = {n.attr for part in body(loop) for n in walk(part) if isinstance(n, ast.Attribute)}
    if methods & {"norm", "clamp_", "clip_", "square"} and "grad" in methods:
        return "use `torch.nn.utils.clip_grad_norm_`, `clip_grad_value_` or `torch._foreach_norm` on the whole list"
    if methods & {"norm", "square", "pow", "sum"} and not any(is_inplace(m) for m in methods):
        return "use `torch._foreach_norm` on the whole list and combine the results"
    if "grad" in methods:
        return "use an optimiser of `torch.optim` with `foreach=True`, or `torch._foreach_add_` on lists"
    return "use `torch._foreach_lerp_`, `torch._foreach_copy_` or the like on whole lists of one dtype and device"


# -- zeroing


def _zeroing(loop: Looping) -> list[ast.stmt]:
    """The statements of a round that set gradients to zero, if the loop does nothing else; empty if it does."""
    if not isinstance(loop, ast.For):
        return []
    block = _conditional(loop.body)
    while len(block) == 1 and isinstance(block[0], ast.For):
        block = block[0].body
    names = names_bound(loop)
    return block if block and all(_zeroes(s, names) for s in block) and any(_is_zero(s) for s in block) else []


def _without_gradients(sites: Sites, edits: tuple[Edit, ...]) -> Fix:
    title = "Drop the gradients instead of zeroing them"
    if not any(_moves_by_zeros(n) for n in walk(sites.tree.module)):
        return Fix(title, "safe", edits)
    reason = "an optimizer with momentum or decay moves a parameter by zeros, and leaves one without a gradient alone"
    return Fix(title, "unsafe", edits, reason)


def _moves_by_zeros(node: ast.AST) -> bool:
    """An optimizer of `torch.optim` for which a gradient of zeros is not the same as none: any but plain SGD."""
    place = dotted(node.func) if isinstance(node, ast.Call) else None
    if not isinstance(node, ast.Call) or place is None or "optim" not in place.split(".")[:-1]:
        return False
    plain = place.endswith(".SGD") and {k.arg for k in node.keywords} <= {"lr", "params", "foreach", "fused"}
    return not plain and not place.split(".")[-1].islower()


def _zeroed_behind(sites: Sites, loop: Looping) -> Iterator[Match]:
    """Gradients that an update of the weights sets to zero once it is done with them."""
    if _zeroing(loop) or not isinstance(loop, ast.For):
        return
    block, names = _conditional(loop.body), names_bound(loop)
    behind = [s for s in block if _zeroes(s, names)]
    zeros = [s for s in behind if _is_zero(s)]
    if not zeros or behind != block[-len(behind) :]:
        return
    counted = max((cost.calls for n in walk(zeros[-1]) if (cost := sites.cost(n)) is not None), default=0)
    edit = _to_none(sites, behind) if _is_read_here_alone(sites, loop) else None
    edits = checked(sites.source, [edit]) if edit is not None else None
    share = sites.share(*behind)
    message = (
        f"This sets {counted} gradients to zero one by one, {percent(share)} of the forward: dropped ones cost nothing"
    )
    yield Match(
        place(sites, zeros[-1]),
        message if edits else f"{message}. No automatic fix: the zeros may be read before a backward replaces them",
        share,
        {"tensors": counted},
        (head(sites, loop),),
        (_without_gradients(sites, edits),) if edits else (),
    )


def _is_read_here_alone(sites: Sites, loop: ast.AST) -> bool:
    """Whether a file runs a backward and reads its gradients in one loop only."""
    own, every = {id(n) for n in walk(loop)}, walk(sites.tree.module)
    reads = (n for n in every if isinstance(n, ast.Attribute) and n.attr == "grad")
    return any(_is_backward(n) for n in every) and all(id(n) in own for n in reads)


def _conditional(block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements under the conditions that a round does nothing without."""
    while len(block) == 1 and isinstance(block[0], ast.If) and not block[0].orelse:
        block = block[0].body
    return block


def _to_none(sites: Sites, zeroing: list[ast.stmt]) -> Edit | None:
    """A gradient of None instead of one of zeros; None if the statements share lines with other code."""
    if not all(stands_alone(sites.tree, statement) for statement in zeroing):
        return None
    return replace_statements(sites.tree, zeroing, [f"{_gradient(zeroing[-1])} = None"])


def _zeroes(statement: ast.stmt, names: frozenset[str]) -> bool:
    place = _gradient(statement)
    return place is not None and place.split(".")[0] in names and (_is_zero(statement) or _detaches(statement))


def _gradient(statement: ast.stmt) -> str | None:
    """`p.grad` that a statement changes."""
    place = None
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        place = dotted(func.value) if isinstance(func, ast.Attribute) else None
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        place = dotted(statement.targets[0])
    elif isinstance(statement, ast.AugAssign):
        place = dotted(statement.target)
    place = place.removesuffix(".data") if place is not None else None
    return place if place is not None and place.endswith(".grad") and place.count(".") == 1 else None


def _is_zero(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    if isinstance(statement, ast.Expr) and isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        name, given = value.func.attr, value.args[0] if value.args else None
        zero = isinstance(given, ast.Constant) and given.value == 0
        return name == "zero_" or (name in {"fill_", "mul_"} and zero)
    if isinstance(statement, ast.Assign):
        return isinstance(value, ast.Call) and (dotted(value.func) or "").split(".")[-1] == "zeros_like"
    return False


def _detaches(statement: ast.stmt) -> bool:
    value = getattr(statement, "value", None)
    if (
        not isinstance(statement, ast.Expr)
        or not isinstance(value, ast.Call)
        or not isinstance(value.func, ast.Attribute)
    ):
        return False
    return value.func.attr in {"detach_", "requires_grad_"}


def _dropped(sites: Sites, loop: ast.For, zeroing: list[ast.stmt]) -> tuple[Edit, ...]:
    """Set the gradients to None. Raises `RefusedError`."""
    tree = sites.tree
    if not _backward_follows(sites, loop):
        raise RefusedError(
            "call `zero_grad()`. No automatic fix: the zeros may be read before a backward replaces them"
        )
    module = _module(loop)
    start, end = offsets(sites.source, loop)
    whole = module is not None and stands_alone(tree, loop) and not has_comment(sites.source, start, end)
    if whole and not loop.orelse and _tests_only_gradient(loop):
        edit = replace_statements(tree, [loop], [f"{module}.zero_grad()"])
    else:
        edit = _to_none(sites, zeroing)
    if edit is None:
        raise RefusedError("call `zero_grad()`. No automatic fix: the loop shares lines with other code")
    fitted = checked(sites.source, [edit])
    if fitted is None:
        raise RefusedError("call `zero_grad()`")
    return fitted


def _module(loop: ast.For) -> str | None:
    """`self.net` of `self.net.parameters()`."""
    call = loop.iter
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args or call.keywords:
        return None
    return dotted(call.func.value) if call.func.attr == "parameters" and isinstance(loop.target, ast.Name) else None


def _tests_only_gradient(loop: ast.For) -> bool:
    """Whether the round's only condition is that there is a gradient."""
    inner = loop.body[0]
    if not isinstance(inner, ast.If):
        return len(loop.body) >= 1
    test = inner.test
    if len(inner.body) and isinstance(inner.body[0], ast.If):
        return False
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.IsNot):
        return (dotted(test.left) or "").endswith(".grad")
    return (dotted(test) or "").endswith(".grad")


def _backward_follows(sites: Sites, loop: ast.For) -> bool:
    """Whether a backward follows in the loop's function, or behind its only call, with no read before it."""
    node: ast.AST | None = loop
    for _ in range(_DEPTH):
        function = sites.tree.function(node) if node is not None else None
        if node is None or function is None:
            return False
        end = getattr(node, "end_lineno", None) or 0
        lines = [n.lineno for n in walk(function) if _is_backward(n) and n.lineno > end]
        if lines:
            return not _reads_elsewhere(sites, function, loop, max(lines))
        node = only_call(sites, function)
    return False


def _is_backward(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"


def _reads_elsewhere(sites: Sites, function: Function, loop: ast.For, backward: int) -> bool:
    """Whether a gradient may be read before the backward: anywhere but in the loop and behind that line."""
    own = {id(n) for n in walk(loop)}
    behind = {id(n) for n in walk(function) if getattr(n, "lineno", 0) > backward}
    return any(
        isinstance(n, ast.Attribute) and n.attr == "grad" and id(n) not in own and id(n) not in behind
        for n in walk(sites.tree.module)
    )
