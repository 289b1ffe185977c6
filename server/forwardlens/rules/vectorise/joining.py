"""Lists that a loop fills and `torch.stack` or `torch.cat` makes one tensor of."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from forwardlens.model import Edit
from forwardlens.rules.batched import Batched, RefusedError, arranged, moves, put_together, wrapped
from forwardlens.rules.evidence import Sites
from forwardlens.rules.layout import LayoutMattersError, LayoutReaders
from forwardlens.rules.loops import Loop
from forwardlens.rules.operations import JOINS, is_torch_function
from forwardlens.rules.statements.work import Appended, is_empty
from forwardlens.rules.vectorise.replacing import without_statement
from forwardlens.source.rewrite import replace_node, stands_alone
from forwardlens.source.tree import Function, argument, assigned, dotted, integer, keyword_name, walk


@dataclass(frozen=True)
class Join:
    """A call that makes one tensor of a list: `torch.stack` with a new dimension, or `torch.cat`."""

    call: ast.Call
    stack: bool
    dim: int


def join_of(sites: Sites, items: ast.AST) -> Join | None:
    """The `torch.stack` or `torch.cat` that `items` is the first argument of."""
    call = sites.tree.parent(items)
    copied = _copied_by(sites, call)
    if copied is not None:
        return join_of(sites, copied)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not items:
        return None
    name = dotted(call.func)
    if name in {"tuple", "list"} and len(call.args) == 1:
        return join_of(sites, call)
    joins = isinstance(call.func, ast.Attribute) and call.func.attr in JOINS
    if not joins or not is_torch_function(sites.tree.module, call.func) or len(call.args) + len(call.keywords) > 2:
        return None
    if any(keyword_name(k) != "dim" for k in call.keywords):
        return None
    given = argument(call, 1, "dim")
    dim = 0 if given is None else integer(given)
    return None if dim is None else Join(call, (name or "").endswith(".stack"), dim)


def _copied_by(sites: Sites, node: ast.AST | None) -> ast.ListComp | ast.GeneratorExp | None:
    """The comprehension `[row for row in rows]`, of the part of it that has the list."""
    copied = sites.tree.parent(node) if isinstance(node, ast.comprehension) else None
    if not isinstance(copied, (ast.ListComp, ast.GeneratorExp)) or not isinstance(node, ast.comprehension):
        return None
    same = dotted(copied.elt) == dotted(node.target) and isinstance(node.target, ast.Name)
    return copied if same and len(copied.generators) == 1 and not node.ifs and not node.is_async else None


def joins_of(sites: Sites, loop: Loop, name: str, allowed: Sequence[ast.AST]) -> list[Join]:
    """How the list `name` is put together. Refuses if it is used for anything else."""
    found: list[Join] = []
    renamed, before = _rebound(sites, loop, name), _before(sites, loop)
    own = {id(n) for n in (renamed.targets if renamed is not None else ())}
    for node in walk(loop.function):
        if not isinstance(node, ast.Name) or node.id != name or any(node is a for a in allowed) or id(node) in own:
            continue
        if id(node) in before or (renamed is not None and node.lineno > (renamed.end_lineno or renamed.lineno)):
            # There the name is that of something else: above of what the list is made of, below of the tensor.
            continue
        join = join_of(sites, node)
        if join is None or node.lineno < (loop.node.end_lineno or 0):
            raise RefusedError(f"`{name}` is used for more than to be stacked")
        found.append(join)
    if len({(j.stack, j.dim) for j in found}) > 1:
        raise RefusedError(f"`{name}` is stacked in several ways")
    return found


def _before(sites: Sites, loop: Loop) -> set[int]:
    """What certainly is evaluated before the list of a comprehension gets its name: all above it and itself."""
    statement = sites.tree.statement(loop.node)
    if statement is loop.node or next(sites.tree.loops(statement), None) is not None:
        return set()
    block = sites.tree.block(statement)
    above = [n for s in block[: block.index(statement)] for n in walk(s)]
    nested = any(isinstance(n, Function | ast.Lambda) for n in above)
    return set() if nested else {id(n) for n in (*above, *walk(loop.node))}


def _rebound(sites: Sites, loop: Loop, name: str) -> ast.Assign | None:
    """`rows = torch.stack(rows)` behind the loop: the tensor takes the list's name."""
    here = sites.tree.statement(loop.node)
    block = sites.tree.block(here)
    for statement in block[block.index(here) + 1 :]:
        if isinstance(statement, ast.Assign) and [dotted(t) for t in statement.targets] == [name]:
            given = statement.value.args[:1] if isinstance(statement.value, ast.Call) else []
            return statement if [dotted(a) for a in given] == [name] else None
    return None


def joined(value: Batched, join: Join, loops: Sequence[Loop]) -> Batched:
    """All rounds' values as `torch.stack` or `torch.cat` would put them together."""
    backwards = [loop.backwards for loop in loops]
    return arranged(put_together(value, join.dim, stack=join.stack, backwards=backwards), 0)


def owned(value: Batched) -> Batched:
    """Stacking copies: a value that is only a view of another tensor has to be copied too."""
    return replace(value, text=f"{wrapped(value.text, value.atom)}.clone()", atom=True) if value.view else value


def in_order(sites: Sites, join: Join, value: Batched) -> Batched:
    """A joined tensor lies in the order of its dimensions: copy one with moved dimensions, if a reader may care."""
    if not moves(value.text):
        return value
    readers = LayoutReaders(sites)
    try:
        readers.follow(join.call)
    except LayoutMattersError:
        return replace(value, text=f"{wrapped(value.text, value.atom)}.contiguous()", atom=True, view=False)
    return value


def replace_join(sites: Sites, join: Join, value: Batched) -> Edit:
    """Put `value` in the join's place, in parentheses where something goes on behind it."""
    parent = sites.tree.parent(join.call)
    enclosed = isinstance(parent, (ast.stmt, ast.keyword)) or (
        isinstance(parent, ast.Call) and join.call in parent.args
    )
    return replace_node(sites.source, join.call, value.text if enclosed else wrapped(value.text, value.atom))


def appended_edits(
    sites: Sites, loop: Loop, node: ast.For | ast.While, appended: Appended, filled: set[str], later: bool
) -> tuple[list[Edit], str | None]:
    """The edits around a list that the loop fills, and the line that takes the `append`'s place, if it needs one.

    `later` allows to compute the value only where the list is stacked, if that is the next statement.
    """
    tree, name = sites.tree, appended.name
    block = tree.block(node)
    before = block[: block.index(node)]
    start = next((s for s in reversed(before) if name in _empty_lists(s)), None)
    if start is None or not stands_alone(tree, start) or not set(_empty_lists(start)) <= filled:
        raise RefusedError(f"`{name}` does not start as an empty list beside the loop")
    joins = joins_of(sites, loop, name, allowed=[appended.receiver, _empty_lists(start)[name]])
    if not joins:
        raise RefusedError(f"`{name}` is not stacked")
    whole = in_order(sites, joins[0], owned(joined(appended.value, joins[0], appended.loops)))
    edits = [_without_empty_lists(sites, start)]
    following = block[block.index(node) + 1 :]
    simple = bool(following) and isinstance(following[0], (ast.Assign, ast.Return, ast.Expr, ast.AnnAssign))
    if simple and later and len(joins) == 1 and tree.statement(joins[0].call) is following[0]:
        return [*edits, replace_join(sites, joins[0], whole)], None
    edits += [made_before(sites, join, name) for join in joins]
    return edits, f"{name} = {whole.text}"


def made_before(sites: Sites, join: Join, name: str) -> Edit:
    """The name of the tensor in place of what made it of the list."""
    statement = sites.tree.parent(join.call)
    again = isinstance(statement, ast.Assign) and [dotted(t) for t in statement.targets] == [name]
    if isinstance(statement, ast.Assign) and again and stands_alone(sites.tree, statement):
        return without_statement(sites, statement)
    return replace_node(sites.source, join.call, name)


def _empty_lists(statement: ast.stmt) -> dict[str, ast.expr]:
    """The names that a statement binds to empty lists."""
    return {t.id: t for t, value in assigned(statement) if isinstance(t, ast.Name) and is_empty(value)}


def _without_empty_lists(sites: Sites, statement: ast.stmt) -> Edit:
    """A statement without the empty lists that it makes."""
    tree = sites.tree
    rest = [
        (tree.text(t), tree.text(v)) for t, v in assigned(statement) if not (isinstance(t, ast.Name) and is_empty(v))
    ]
    if not rest:
        return without_statement(sites, statement)
    kept = f"{', '.join(t for t, _ in rest)} = {', '.join(v for _, v in rest)}"
    return replace_node(sites.source, statement, kept)
