"""A tensor that grows by `torch.cat` in every round of a loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from forwardlens.model import Edit, Fix
from forwardlens.rules.batched import RefusedError
from forwardlens.rules.contract import Context, Example, Match, Rule
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites, percent, sites_of
from forwardlens.rules.loops import loop_of
from forwardlens.rules.operations import CATS, is_torch_function
from forwardlens.rules.repeated import (
    LEAST_ROUNDS,
    depends_in_round,
    head,
    in_rounds,
    insert_after,
    nested_functions,
    reads_of,
)
from forwardlens.rules.starts import is_none_before, rank_made, value_before
from forwardlens.source.dataflow import aliases_of_all, bindings, fresh_name, may_alias, names_bound, overlap, root
from forwardlens.source.rewrite import checked, has_comment, insert_before, offsets, replace_statements, stands_alone
from forwardlens.source.tree import Function, Looping, argument, dotted, integer, keyword_name, walk

# From this many dimensions on they do no more than join.
_RANKS = {"hstack": 2, "vstack": 2, "row_stack": 2, "column_stack": 2, "dstack": 3}


@dataclass(frozen=True)
class _Growth:
    """`x = torch.cat([x, parts])`: the statement to replace, the call, and the parts in front of and behind `x`.

    `first` says what the first round does instead: nothing, or give `x` its start where it was None or unbound.
    """

    statement: ast.stmt
    call: ast.Call
    place: str
    before: tuple[ast.expr, ...]
    after: tuple[ast.expr, ...]
    first: str = "grows"

    @property
    def parts(self) -> tuple[ast.expr, ...]:
        return (*self.before, *self.after)


class CatInLoop(Rule):
    """## What it does
    Finds `x = torch.cat([x, y])` in a loop, where `x` is longer after every round.

    ## Why it costs
    `torch.cat` allocates a new tensor and copies everything that is there already. After n rounds the first part has
    been copied n times, so the work grows with the square of the rounds; with autograd every intermediate tensor
    stays alive and the backward slices through all of them.

    ## When to ignore it
    When every round computes its part from the whole tensor so far, as densely connected layers do: that is not
    reported while gradients are needed. A cache that the loop reads is reported without a fix; allocate it once at
    its full length, write each round's part into its place, and read the slice that is filled.

    ## Fix safety
    The fix is offered as safe if the loop only adds to the tensor and neither reads it nor changes one of its parts
    in place. The parts go into a list, and one `torch.cat` after the loop joins them in the same order.
    """

    name: ClassVar[str] = "cat-in-loop"
    summary: ClassVar[str] = "A tensor that grows by `torch.cat` in every round of a loop"
    examples: ClassVar[tuple[Example, ...]] = (
        Example(
            "trajectory",
            """\
import torch
from torch import nn


class Rollout(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x):
        path = x.unsqueeze(1)
        for _ in range(40):
            x = torch.tanh(self.step(x))
            path = torch.cat([path, x.unsqueeze(1)], dim=1)  #!
        return path


def build():
    return Rollout(), (torch.randn(4, 8),)
""",
            """\
import torch
from torch import nn


class Rollout(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(8, 8)

    def forward(self, x):
        path_parts = [x]
        for _ in range(40):
            x = torch.tanh(self.step(x))
            path_parts.append(x)
        path = torch.stack(path_parts, dim=1)
        return path


def build():
    return Rollout(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "starts-as-none",
            """\
import torch
from torch import nn


class Windows(nn.Module):
    def forward(self, x):
        found = None
        for t in range(0, x.size(1) - 3):
            piece = x[:, t : t + 3].mean(dim=1, keepdim=True)
            if found is None:
                found = piece
            else:
                found = torch.cat((found, piece), 1)  #!
        return found


def build():
    return Windows(), (torch.randn(4, 40),)
""",
            """\
import torch
from torch import nn


class Windows(nn.Module):
    def forward(self, x):
        found = None
        found_parts = []
        for t in range(0, x.size(1) - 3):
            piece = x[:, t : t + 3].mean(dim=1, keepdim=True)
            found_parts.append(piece)
        found = torch.cat(found_parts, 1) if found_parts else None
        return found


def build():
    return Windows(), (torch.randn(4, 40),)
""",
        ),
        Example(
            "two-tensors-one-of-them-in-front",
            """\
import torch
from torch import nn


class Both(nn.Module):
    def forward(self, x):
        ends, starts = torch.empty(0), torch.empty(0)
        for chunk in x.split(2):
            ends = torch.cat([ends, chunk[-1], chunk[0]])  #!
            starts = torch.concat([chunk[0] * 2, starts])  #!
        return ends + 1, starts


def build():
    return Both(), (torch.randn(80, 3),)
""",
            """\
import torch
from torch import nn


class Both(nn.Module):
    def forward(self, x):
        ends, starts = torch.empty(0), torch.empty(0)
        ends_parts = [ends]
        starts_parts = [starts]
        for chunk in x.split(2):
            ends_parts.extend([chunk[-1], chunk[0]])
            starts_parts.insert(0, chunk[0] * 2)
        ends = torch.cat(ends_parts)
        starts = torch.concat(starts_parts)
        return ends + 1, starts


def build():
    return Both(), (torch.randn(80, 3),)
""",
        ),
        Example(
            "cache-read-in-the-loop",
            """\
import torch
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(8, 8)

    def forward(self, x):
        keys = x[:, :0]
        out = []
        for t in range(x.size(1)):
            now = x[:, t : t + 1]
            keys = torch.cat([keys, self.key(now)], dim=1)  #!
            out.append((now @ keys.transpose(1, 2)).mean())
        return torch.stack(out)


def build():
    return Cached(), (torch.randn(2, 40, 8),)
""",
        ),
        Example(
            "start-beside-others",
            """\
import torch
from torch import nn


class Trace(nn.Module):
    def forward(self, x):
        state, path = x[:, 0], None
        tokens, count = torch.empty(x.size(0), 0, dtype=x.dtype), 0
        for t in range(x.size(1)):
            state = torch.tanh(state + x[:, t])
            path = state if path is None else torch.cat((path, state), dim=-1)  #!
            tokens = torch.hstack([tokens, state])  #!
            count += state.size(1)
        return path, tokens[:, :count]


def build():
    return Trace(), (torch.randn(2, 40, 8),)
""",
            """\
import torch
from torch import nn


class Trace(nn.Module):
    def forward(self, x):
        state, path = x[:, 0], None
        tokens, count = torch.empty(x.size(0), 0, dtype=x.dtype), 0
        path_parts = []
        tokens_parts = [tokens]
        for t in range(x.size(1)):
            state = torch.tanh(state + x[:, t])
            path_parts.append(state)
            tokens_parts.append(state)
            count += state.size(1)
        path = torch.cat(path_parts, dim=-1) if path_parts else None
        tokens = torch.hstack(tokens_parts)
        return path, tokens[:, :count]


def build():
    return Trace(), (torch.randn(2, 40, 8),)
""",
        ),
        Example(
            "part-changed-in-place",
            """\
import torch
from torch import nn


class Counting(nn.Module):
    def forward(self, x):
        state = x.clone()
        path = x
        for _ in range(40):
            state.add_(1.0)
            path = torch.cat([path, state])  #!
        return path


def build():
    return Counting(), (torch.randn(4),)
""",
        ),
        Example(
            "densely-connected",
            """\
import torch
from torch import nn


class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8 + 2 * i, 2) for i in range(8))

    def forward(self, x):
        for layer in self.layers:
            new = layer(x).relu()
            x = torch.cat([x, new], dim=-1)
        return x


def build():
    return Dense(), (torch.randn(4, 8),)
""",
        ),
        Example(
            "same-length-every-round",
            """\
import torch
from torch import nn


class Shift(nn.Module):
    def forward(self, x):
        for _ in range(40):
            pair = torch.cat([x, x], dim=1)
            x = pair[:, 1 : 1 + x.size(1)]
        return x


def build():
    return Shift(), (torch.randn(4, 24),)
""",
        ),
    )

    def find(self, context: Context) -> Iterator[Match]:
        sites = sites_of(context)
        if sites is None:
            return
        for node, cost in sites.items():
            if not isinstance(node, ast.Call) or cost.op_calls("aten::cat") < LEAST_ROUNDS:
                continue
            growth = _growth(sites, node)
            if growth is not None:
                match = _match(context, sites, growth)
                if match is not None:
                    yield match


def _growth(sites: Sites, call: ast.Call) -> _Growth | None:
    """How `call` makes a tensor grow; None if it does not join a place with something and give it back."""
    tree = sites.tree
    leaf = call.func.attr if isinstance(call.func, ast.Attribute) else None
    given = argument(call, 0, "tensors")
    if (
        leaf not in CATS
        or not is_torch_function(tree.module, call.func)
        or not isinstance(given, (ast.List, ast.Tuple))
    ):
        return None
    if any(isinstance(e, ast.Starred) for e in given.elts) or {keyword_name(k) for k in call.keywords} - {
        "tensors",
        "dim",
    }:
        return None
    statement = tree.statement(call)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    place = tree.text(statement.targets[0])
    here = [n for n, e in enumerate(given.elts) if tree.text(e) == place]
    stored = _stored_again(sites, call, given.elts, statement)
    if stored is not None:
        return stored
    if len(here) != 1 or len(given.elts) < 2:
        return None
    before, after = tuple(given.elts[: here[0]]), tuple(given.elts[here[0] + 1 :])
    growth = _Growth(statement, call, place, before, after)
    return growth if statement.value is call else _started_inside(sites, growth, statement)


def _stored_again(sites: Sites, call: ast.Call, parts: list[ast.expr], statement: ast.Assign) -> _Growth | None:
    """`k = torch.cat([cache[i], k])` where `cache[i] = k` or `cache[i] = (k, v)` follows in the same function."""
    tree, function, target = sites.tree, sites.tree.function(call), statement.targets[0]
    if len(parts) != 2 or statement.value is not call or not isinstance(target, ast.Name) or function is None:
        return None
    kept = [e for e in parts if isinstance(e, (ast.Subscript, ast.Attribute)) and not _is_cut(e)]
    place = root(kept[0]) if len(kept) == 1 else None
    other = next((e for e in parts if e not in kept), None)
    if place is None or place == "self" or other is None or reads_of(other, place):
        return None
    later = [n for n in walk(function) if isinstance(n, ast.Assign) and n.lineno > statement.lineno]
    if any(target.id in names_bound(n) for n in later):
        return None
    for store in later:
        into = [t for t in store.targets if isinstance(t, (ast.Subscript, ast.Attribute)) and root(t) == place]
        values = store.value.elts if isinstance(store.value, (ast.Tuple, ast.List)) else [store.value]
        if into and any(dotted(value) == target.id for value in values):
            at = parts.index(kept[0])
            return _Growth(statement, call, tree.text(kept[0]), (*parts[:at],), (*parts[at + 1 :],))
    return None


def _is_cut(node: ast.expr) -> bool:
    """`window[:, 1:]`: what is left may be as long as before."""
    return any(isinstance(n, ast.Slice) for n in walk(node))


def _started_inside(sites: Sites, growth: _Growth, statement: ast.Assign) -> _Growth | None:
    """`x = y if x is None else torch.cat([x, y])`."""
    value = statement.value
    if not isinstance(value, ast.IfExp):
        return None
    start = value.body if value.orelse is growth.call else value.orelse if value.body is growth.call else None
    first = _first_round(sites, growth, value.test, value.orelse is growth.call)
    if start is None or first is None or not _same_part(sites, growth, start):
        return _Growth(statement, growth.call, growth.place, (), (), "unclear")
    return _Growth(statement, growth.call, growth.place, growth.before, growth.after, first)


def _same_part(sites: Sites, growth: _Growth, start: ast.expr) -> bool:
    return len(growth.parts) == 1 and sites.tree.text(growth.parts[0]) == sites.tree.text(start)


def _first_round(sites: Sites, growth: _Growth, test: ast.expr, when_true: bool) -> str | None:
    """Whether a test tells the first round from the others: "none" by `x is None`, "counted" by `t == 0` or `not t`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _first_round(sites, growth, test.operand, not when_true)
    if isinstance(test, ast.Name):
        return "counted" if not when_true and test.id == _counter_from_zero(sites, growth) else None
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right, op = test.left, test.comparators[0], test.ops[0]
    equal = isinstance(op, (ast.Is, ast.Eq))
    if not equal and not isinstance(op, (ast.IsNot, ast.NotEq, ast.Gt)):
        return None
    if equal != when_true:
        return None
    if isinstance(op, (ast.Is, ast.IsNot)) and dotted(left) == growth.place:
        return "none" if isinstance(right, ast.Constant) and right.value is None else None
    counted = integer(right) == 0 and isinstance(left, ast.Name) and left.id == _counter_from_zero(sites, growth)
    return "counted" if counted else None


def _counter_from_zero(sites: Sites, growth: _Growth) -> str | None:
    """The name that is 0 in the first round alone of the innermost loop."""
    loop = next(sites.tree.loops(growth.statement), None)
    counted = loop_of(sites, loop) if loop is not None else None
    return None if counted is None or counted.backwards or counted.start else counted.index


def _in_branches(sites: Sites, growth: _Growth) -> _Growth:
    """The same with the whole `if x is None: x = y` around it, where that is how the tensor starts."""
    branch = sites.tree.parent(growth.statement)
    if growth.first != "grows" or not isinstance(branch, ast.If) or len(branch.body) != 1 or len(branch.orelse) != 1:
        return growth
    other = branch.body[0] if branch.orelse[0] is growth.statement else branch.orelse[0]
    started = isinstance(other, ast.Assign) and [dotted(t) for t in other.targets] == [growth.place]
    if not started or not isinstance(other, ast.Assign):
        return growth
    first = _first_round(sites, growth, branch.test, other is branch.body[0])
    if first is None or not _same_part(sites, growth, other.value):
        return growth
    return _Growth(branch, growth.call, growth.place, growth.before, growth.after, first)


def _match(context: Context, sites: Sites, growth: _Growth) -> Match | None:
    cost = sites.cost(growth.call)
    loop = next(sites.tree.loops(growth.call), None)
    assert cost is not None
    if loop is None and (growth.place.isidentifier() or not isinstance(growth.statement, ast.Assign)):
        return None
    if loop is not None and not (in_rounds(cost) and _only_grows(sites, growth, loop)):
        return None
    if loop is not None and _grows_from_itself(context, loop, growth):
        return None
    share = sites.share(growth.call)
    message = (
        f"`{growth.place}` grows by `{sites.tree.text(growth.call.func)}` {cost.calls} times in one forward, "
        f"{percent(share)} of it: every call copies all that is there already"
    )
    fix: Fix | None = None
    try:
        fix = Fix("Collect the parts and join them once", "safe", _collected(sites, _in_branches(sites, growth), loop))
        message = f"{message}, one call after the loop would copy each part once"
    except RefusedError as refused:
        message = f"{message}; allocate it once and write each part into its place. No automatic fix: {refused}"
    return Match(
        sites.source.span(growth.call),
        message,
        share,
        {"calls": cost.calls, "calls_per_entry": cost.calls_per_entry},
        (head(sites, loop),) if loop is not None else (),
        (fix,) if fix else (),
    )


def _only_grows(sites: Sites, growth: _Growth, loop: Looping) -> bool:
    """Whether a round gives the tensor no other value, but for the branch that starts it."""
    branch = sites.tree.parent(growth.statement)
    around = branch if isinstance(branch, ast.If) and branch.orelse else growth.statement
    allowed = {id(n) for n in walk(around)}
    return all(
        id(n) in allowed or isinstance(n.ctx, ast.Load) or sites.tree.text(n) != growth.place
        for n in walk(loop)
        if isinstance(n, (ast.Name, ast.Attribute, ast.Subscript))
    )


def _grows_from_itself(context: Context, loop: Looping, growth: _Growth) -> bool:
    """Whether a part is computed from the tensor so far while autograd needs every step of it."""
    grad = context.profile.grad
    if not grad.grad_enabled or not (grad.outputs_require_grad or grad.backward_ran):
        return False
    return any(depends_in_round(loop, part, {growth.place}) for part in growth.parts)


# -- the fix


def _collected(sites: Sites, growth: _Growth, inner: Looping | None) -> tuple[Edit, ...]:
    """Append to a list instead, and join it behind the loop. Raises `RefusedError`."""
    tree, name = sites.tree, growth.place
    function = tree.function(growth.call)
    if function is None or not isinstance(inner, (ast.For, ast.AsyncFor, ast.While)):
        raise RefusedError(f"`{name}` lives on between the calls that grow it")
    if not name.isidentifier():
        raise RefusedError(f"something else may read `{name}` in between")
    if growth.first == "unclear" or (growth.before and growth.after):
        raise RefusedError(f"`{name}` does not grow at one end only")
    loop = _whole_loop(sites, growth, inner)
    _require_collectable(sites, function, growth, loop)
    _require_rank(sites, growth, loop)
    parts = fresh_name(function, f"{name}_parts")
    stacked = _stacked(sites, growth, loop, parts)
    if stacked is not None:
        return stacked
    start = f"{parts} = [{name}]" if growth.first == "grows" else f"{parts} = []"
    joined = _spliced_join(sites, growth, parts)
    if growth.first == "none":
        joined = f"{joined} if {parts} else None"
    source = sites.source
    edits = checked(
        source,
        [
            insert_before(tree, loop, [start]),
            replace_statements(tree, [growth.statement], [_added(sites, growth, parts)]),
            insert_after(tree, loop, [f"{name} = {joined}"]),
        ],
    )
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def _stacked(sites: Sites, growth: _Growth, loop: ast.stmt, parts: str) -> tuple[Edit, ...] | None:
    """`torch.stack` instead, where the tensor starts right above and every part only gets a dimension to join along."""
    tree, call = sites.tree, growth.call
    block = tree.block(loop)
    above = block[block.index(loop) - 1] if block.index(loop) else None
    dim = integer(argument(call, 1, "dim"))
    if growth.first != "grows" or growth.before or len(growth.after) != 1 or not isinstance(above, ast.Assign):
        return None
    first, later = _unsqueezed(above.value, dim), _unsqueezed(growth.after[0], dim)
    same = [dotted(t) for t in above.targets] == [growth.place] and stands_alone(tree, above)
    if first is None or later is None or not same or dotted(call.func) is None:
        return None
    owner = (dotted(call.func) or "").rpartition(".")[0]
    return checked(
        sites.source,
        [
            replace_statements(tree, [above], [f"{parts} = [{tree.text(first)}]"]),
            replace_statements(tree, [growth.statement], [f"{parts}.append({tree.text(later)})"]),
            insert_after(tree, loop, [f"{growth.place} = {owner}.stack({parts}, dim={dim})"]),
        ],
    )


def _unsqueezed(node: ast.expr, dim: int | None) -> ast.expr | None:
    """`y` of `y.unsqueeze(dim)`."""
    if dim is None or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != "unsqueeze" or dotted(node.func.value) is None or integer(argument(node, 0, "dim")) != dim:
        return None
    return None if dotted(node.func.value) == "torch" else node.func.value


def _added(sites: Sites, growth: _Growth, parts: str) -> str:
    texts = [sites.tree.text(part) for part in growth.parts]
    if growth.after:
        return f"{parts}.append({texts[0]})" if len(texts) == 1 else f"{parts}.extend([{', '.join(texts)}])"
    return f"{parts}.insert(0, {texts[0]})" if len(texts) == 1 else f"{parts}[:0] = [{', '.join(texts)}]"


def _spliced_join(sites: Sites, growth: _Growth, parts: str) -> str:
    call = growth.call
    rest = [sites.tree.text(a) for a in call.args[1:]] + [
        sites.tree.text(k) for k in call.keywords if k.arg != "tensors"
    ]
    return f"{sites.tree.text(call.func)}({', '.join([parts, *rest])})"


def _whole_loop(
    sites: Sites, growth: _Growth, inner: ast.For | ast.AsyncFor | ast.While
) -> ast.For | ast.AsyncFor | ast.While:
    """The outermost loop in which nothing else gives the tensor a value."""
    chosen = inner
    for loop in sites.tree.loops(growth.statement):
        stores = [n for n in walk(loop) if isinstance(n, ast.Name) and n.id == growth.place]
        own = {id(n) for n in walk(growth.statement)}
        if not isinstance(loop, (ast.For, ast.AsyncFor, ast.While)) or any(id(n) not in own for n in stores):
            break
        chosen = loop
    return chosen


def _require_collectable(
    sites: Sites, function: Function, growth: _Growth, loop: ast.For | ast.AsyncFor | ast.While
) -> None:
    tree, name = sites.tree, growth.place
    own = {id(n) for n in walk(growth.statement)}
    if any(isinstance(n, ast.Name) and n.id == name and id(n) not in own for n in walk(loop)):
        raise RefusedError(f"the loop uses `{name}` for more than to add to it")
    if any(reads_of(part, name) for part in growth.parts) or any(reads_of(f, name) for f in nested_functions(function)):
        raise RefusedError(f"a part of `{name}` is computed from what is there already")
    if loop.orelse or not stands_alone(tree, loop) or not stands_alone(tree, growth.statement):
        raise RefusedError("the loop shares lines with other code")
    stores = [n for n in bindings(function, name) if not any(n is inside for inside in walk(loop))]
    earlier = [n for n in stores if isinstance(n, ast.arg) or getattr(n, "lineno", 0) < loop.lineno]
    if growth.first != "counted" and not earlier:
        raise RefusedError(f"`{name}` has no value before the loop")
    if growth.first == "none" and not is_none_before(sites, loop, name):
        raise RefusedError(f"`{name}` is not certainly None before the loop")
    start, end = offsets(sites.source, growth.statement)
    if has_comment(sites.source, start, end):
        raise RefusedError("there is a comment inside the statement")
    _require_parts_unchanged(sites, function, growth, loop)
    if any(isinstance(n, (ast.Call)) and dotted(n.func) in {"locals", "eval", "exec"} for n in walk(function)):
        raise RefusedError("the function looks at its own names")


def _require_rank(sites: Sites, growth: _Growth, loop: ast.stmt) -> None:
    """`vstack` and the like give what has fewer dimensions some more, and `hstack` joins vectors along another one.

    So the start has to have them, or one round less would give another shape.
    """
    name = growth.call.func.attr if isinstance(growth.call.func, ast.Attribute) else ""
    if name not in _RANKS:
        return
    start = value_before(sites, loop, growth.place) if growth.first == "grows" else None
    if start is None or rank_made(start) < _RANKS[name]:
        raise RefusedError(f"`{name}` does more than join where `{growth.place}` starts with fewer dimensions")


def _require_parts_unchanged(
    sites: Sites, function: Function, growth: _Growth, loop: ast.For | ast.AsyncFor | ast.While
) -> None:
    """A list keeps the parts themselves, where `torch.cat` had copied them at once."""
    kept = {growth.place, *(place for part in growth.parts for place in may_alias(part))} - {"self"}
    shared = aliases_of_all(function, kept) - {"self"}
    for _, changed in changes(sites, loop):
        if changed is None or any(overlap(changed, s) for s in shared):
            raise RefusedError("the loop changes a part in place after it was added")
