"""Replacing a loop over an axis by tensor work on the whole axis.

`vectorised` answers with edits only if it is sure: every round must be independent of the others, every expression
must have a form for all rounds, and nothing after the loop may read what only the loop would leave behind.
Otherwise it raises `RefusedError`, whose message says what stood in the way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

from forwardlens.model import Edit
from forwardlens.rules.batched import (
    Batched,
    Fixed,
    RefusedError,
    arranged,
    flipped,
    indexed,
    moves,
    put_together,
    wrapped,
)
from forwardlens.rules.evidence import Sites
from forwardlens.rules.layout import LayoutMattersError, LayoutReaders
from forwardlens.rules.lifting.lifter import Lifter, lifter_for
from forwardlens.rules.loops import Loop, leaves_early, loop_of, loops_of, named_slices, skips_rounds
from forwardlens.rules.operations import JOINS, is_torch_function
from forwardlens.rules.statements.filling import filled_at_once
from forwardlens.rules.statements.rounds import Rounds
from forwardlens.rules.statements.sums import summed
from forwardlens.rules.statements.work import INPLACE, Appended, is_empty
from forwardlens.rules.windows import Lengths
from forwardlens.source.dataflow import (
    METADATA,
    aliases,
    changes,
    definition,
    overlap,
    read_after,
    root,
)
from forwardlens.source.rewrite import (
    FORM_FEED,
    checked,
    edit_between,
    insert_before,
    offsets,
    replace_node,
    replace_statements,
    stands_alone,
)
from forwardlens.source.tree import argument, dotted, integer, walk


def vectorised(sites: Sites, node: ast.AST) -> tuple[Edit, ...]:
    """The edits that replace the loop at `node`, with the loops around it where that is possible.

    Raises `RefusedError`, with the obstacle in the loop itself.
    """
    outer = [above for above in sites.tree.loops(node) if isinstance(above, (ast.For, ast.ListComp, ast.GeneratorExp))]
    for above in reversed(outer):
        try:
            return _replaced(sites, above)
        except RefusedError:
            continue
    return _replaced(sites, node)


def _replaced(sites: Sites, node: ast.AST) -> tuple[Edit, ...]:
    lengths = Lengths()
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        edits = _comprehension(sites, node, lengths)
    else:
        loop = loop_of(sites, node)
        if loop is None or not isinstance(loop.node, (ast.For, ast.While)):
            raise RefusedError("the loop does not count up or run over a tensor")
        edits = _for_edits(sites, loop, loop.node, lengths)
    fitted = checked(sites.source, edits)
    if fitted is None:
        raise RefusedError("the edits do not fit together")
    return fitted


# -- comprehensions


def _comprehension(sites: Sites, node: ast.ListComp | ast.GeneratorExp, lengths: Lengths) -> list[Edit]:
    loops = loops_of(sites, node)
    if not loops:
        raise RefusedError("the loop does not count up or run over a tensor")
    lifter = lifter_for(sites, loops[0], lengths)
    for loop in loops[1:]:
        lifter = lifter.deeper(loop)
    value = lifter.lift(node.elt)
    if isinstance(value, Fixed):
        raise RefusedError("every round gives the same value")
    statement = sites.tree.statement(node)
    edits = _comprehension_edits(sites, node, loops, lengths.settled(value), lifter.needs_rounds)
    before = lifter.lines_before(value.text)
    if not before:
        return edits
    if not isinstance(statement, (ast.Assign, ast.Return, ast.Expr, ast.AnnAssign)) or not stands_alone(
        sites.tree, statement
    ):
        raise RefusedError("the comprehension has no line of its own")
    return [insert_before(sites.tree, statement, [lengths.finished(line) for line in before]), *edits]


def _comprehension_edits(
    sites: Sites,
    node: ast.ListComp | ast.GeneratorExp,
    loops: Sequence[Loop],
    value: Batched,
    needs_rounds: Sequence[str],
) -> list[Edit]:
    parent = sites.tree.parent(node)
    join = _join_of(sites, node)
    if join is not None:
        return [_replace_join(sites, join, _in_order(sites, join, _own(_joined(value, join, loops))))]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        try:
            joins = _joins(sites, loops[0], name, allowed=[parent.targets[0]])
        except RefusedError:
            joins = []
        if joins:
            whole = _in_order(sites, joins[0], _own(_joined(value, joins[0], loops)))
            return [
                replace_node(sites.source, node, whole.text),
                *(replace_node(sites.source, j.call, name) for j in joins),
            ]
    _require_rounds(needs_rounds)
    if isinstance(parent, ast.Call) and dotted(parent.func) == "sum" and parent.args == [node]:
        return [replace_node(sites.source, parent, summed(value))]
    if isinstance(node, ast.ListComp) and len(loops) == 1:
        value = arranged(flipped(value) if loops[0].backwards else value, value.natural)
        return [replace_node(sites.source, node, f"list({wrapped(value.text, value.atom)}.unbind({value.loop}))")]
    raise RefusedError("the values are not put together into one tensor")


# -- lists that are stacked after the loop


@dataclass(frozen=True)
class Join:
    """A call that makes one tensor of a list: `torch.stack` with a new dimension, or `torch.cat`."""

    call: ast.Call
    stack: bool
    dim: int


def _join_of(sites: Sites, items: ast.AST) -> Join | None:
    """The `torch.stack` or `torch.cat` that `items` is the first argument of."""
    call = sites.tree.parent(items)
    if not isinstance(call, ast.Call) or not call.args or call.args[0] is not items:
        return None
    name = dotted(call.func)
    if name in {"tuple", "list"} and len(call.args) == 1:
        return _join_of(sites, call)
    joins = isinstance(call.func, ast.Attribute) and call.func.attr in JOINS
    if not joins or not is_torch_function(sites.tree.module, call.func) or len(call.args) + len(call.keywords) > 2:
        return None
    if any(k.arg not in {"dim", "axis"} for k in call.keywords):
        return None
    given = argument(call, 1, "dim") or argument(call, 1, "axis")
    dim = 0 if given is None else integer(given)
    return None if dim is None else Join(call, (name or "").endswith(".stack"), dim)


def _joins(sites: Sites, loop: Loop, name: str, allowed: Sequence[ast.AST]) -> list[Join]:
    """How the list `name` is put together. Refuses if it is used for anything else."""
    found: list[Join] = []
    for node in walk(loop.function):
        if not isinstance(node, ast.Name) or node.id != name or any(node is a for a in allowed):
            continue
        join = _join_of(sites, node)
        if join is None or node.lineno < (loop.node.end_lineno or 0):
            raise RefusedError(f"`{name}` is used for more than to be stacked")
        found.append(join)
    if len({(j.stack, j.dim) for j in found}) > 1:
        raise RefusedError(f"`{name}` is stacked in several ways")
    return found


def _joined(value: Batched, join: Join, loops: Sequence[Loop]) -> Batched:
    """All rounds' values as `torch.stack` or `torch.cat` would put them together."""
    backwards = [loop.backwards for loop in loops]
    return arranged(put_together(value, join.dim, stack=join.stack, backwards=backwards), 0)


def _own(value: Batched) -> Batched:
    """Stacking copies: a value that is only a view of another tensor has to be copied too."""
    return replace(value, text=f"{wrapped(value.text, value.atom)}.clone()", atom=True) if value.view else value


def _in_order(sites: Sites, join: Join, value: Batched) -> Batched:
    """A joined tensor lies in the order of its dimensions: copy one with moved dimensions, if a reader may care."""
    if not moves(value.text):
        return value
    readers = LayoutReaders(sites)
    try:
        readers.follow(join.call)
    except LayoutMattersError:
        return replace(value, text=f"{wrapped(value.text, value.atom)}.contiguous()", atom=True, view=False)
    return value


def _replace_join(sites: Sites, join: Join, value: Batched) -> Edit:
    parent = sites.tree.parent(join.call)
    enclosed = isinstance(parent, (ast.stmt, ast.keyword)) or (
        isinstance(parent, ast.Call) and join.call in parent.args
    )
    return replace_node(sites.source, join.call, value.text if enclosed else wrapped(value.text, value.atom))


# -- `for` loops


def _for_edits(sites: Sites, loop: Loop, node: ast.For | ast.While, lengths: Lengths) -> list[Edit]:
    if leaves_early(node):
        raise RefusedError("a round may end early")
    if not stands_alone(sites.tree, node) or not (loop.counted is None or stands_alone(sites.tree, loop.counted)):
        raise RefusedError("the loop shares a line with other code")
    rounds = Rounds(sites, loop, _unit(sites, node), lifter_for(sites, loop, lengths))
    rounds.lifter.writes = any(_is_tensor_write(n) for n in walk(node))
    lines = [(statement, line) for statement, own in rounds.block(loop.body) for line in own]
    _require_independent(sites, loop, node, rounds)
    if rounds.totals or rounds.writes:
        _require_rounds(rounds.lifter.needs_rounds)
    names = {name for inner in rounds.loops for name in inner.variables} | rounds.bound
    names &= {n.id for n in walk(loop.function) if isinstance(n, ast.Name)}
    for name in sorted(names - rounds.totals - {a.name for a in rounds.appended}):
        if read_after(sites.tree, node, name):
            raise RefusedError(f"`{name}` is read after the loop")
    edits: list[Edit] = [] if loop.counted is None else [_without_statement(sites, loop.counted)]
    replaced: dict[str, str] = {}
    for line, filled in rounds.filled.items():
        made = filled_at_once(sites, loop, rounds.written, filled)
        if made is not None:
            edits.append(_without_statement(sites, made[0]))
            replaced[line] = made[1]
    for line, lifter, written in rounds.writes:
        # A tensor that is made of the rounds' values has no length of its own.
        if line not in replaced:
            lifter.meet(written)
    lines = [(statement, replaced.get(line, line)) for statement, line in lines]
    for appended in rounds.appended:
        if appended.value.view and rounds.written:
            raise RefusedError(f"`{appended.name}` may hold slices that the loop writes to")
        last = not rounds.rebound or appended.statement is loop.body[-1]
        later = len(rounds.appended) == 1 and not rounds.written and last
        settled = replace(appended, value=lengths.settled(appended.value))
        more, line = _appended_edits(sites, loop, node, settled, {a.name for a in rounds.appended}, later)
        edits += [edit for edit in more if edit not in edits]
        if line is not None:
            lines.append((_statement_in(loop, sites, appended.statement), line))
    edits += [_without_statement(sites, made.statement) for made in rounds.made.values()]
    for name in sorted(rounds.lifter.lists_read):
        start = definition(sites.tree, loop.function, name)
        inside = {id(n) for n in walk(node)}
        reads = [n for n in walk(loop.function) if _is_named(n, name) and isinstance(n.ctx, ast.Load)]
        if start is not None and all(id(n) in inside for n in reads) and stands_alone(sites.tree, start):
            edits.append(_without_statement(sites, start))
    order = {statement: n for n, statement in enumerate(loop.body)}
    lines = sorted(((s, lengths.finished(text)) for s, text in lines), key=lambda item: order[item[0]])
    return [*edits, _replace_loop(sites, node, loop, _without_unread(lines, edits, rounds.bound - rounds.totals))]


def _require_rounds(needs_rounds: Sequence[str]) -> None:
    """Refuse what would fail where a loop has no rounds. To stack nothing fails before and after."""
    if needs_rounds:
        raise RefusedError(f"`{needs_rounds[0]}` would fail where the loop has no rounds")


def _statement_in(loop: Loop, sites: Sites, statement: ast.stmt) -> ast.stmt:
    """The statement of a round that another one is in, or is itself."""
    return next(s for s in (statement, *sites.tree.ancestors(statement)) if isinstance(s, ast.stmt) and s in loop.body)


def _unit(sites: Sites, node: ast.For | ast.While) -> str:
    """What a level of indentation is in this file."""
    inside = sites.source.indentation(node.body[0].lineno).replace(FORM_FEED, "")
    outside = sites.source.indentation(node.lineno).replace(FORM_FEED, "")
    return inside.removeprefix(outside) if node.body[0].lineno > node.lineno and inside != outside else "    "


def _is_named(node: ast.AST, name: str) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and node.id == name


def _without_unread(
    lines: Sequence[tuple[ast.stmt, str]], edits: Sequence[Edit], temporaries: Iterable[str]
) -> list[tuple[ast.stmt, str]]:
    """Leave out assignments to `temporaries` of the loop that nothing reads any more. None is read after the loop."""
    kept = list(lines)
    for name in sorted(temporaries):
        own = [item for item in kept if re.match(rf"{re.escape(name)} = ", item[1])]
        rest = [*(text for statement, text in kept if (statement, text) not in own), *(edit.text for edit in edits)]
        if len(own) == 1 and not any(re.search(rf"\b{re.escape(name)}\b", text) for text in rest):
            kept.remove(own[0])
    # What was left out may have been the last reader of another one.
    return kept if len(kept) == len(lines) else _without_unread(kept, edits, temporaries)


def _is_tensor_write(node: ast.AST) -> bool:
    if isinstance(node, ast.Subscript):
        return isinstance(node.ctx, ast.Store)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in INPLACE


def _appended_edits(
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
    joins = _joins(sites, loop, name, allowed=[appended.receiver, _empty_lists(start)[name]])
    if not joins:
        raise RefusedError(f"`{name}` is not stacked")
    whole = _in_order(sites, joins[0], _own(_joined(appended.value, joins[0], (loop,))))
    edits = [_without_statement(sites, start)]
    following = block[block.index(node) + 1 :]
    simple = bool(following) and isinstance(following[0], (ast.Assign, ast.Return, ast.Expr, ast.AnnAssign))
    if simple and later and len(joins) == 1 and tree.statement(joins[0].call) is following[0]:
        return [*edits, _replace_join(sites, joins[0], whole)], None
    edits += [replace_node(sites.source, join.call, name) for join in joins]
    return edits, f"{name} = {whole.text}"


def _empty_lists(statement: ast.stmt) -> dict[str, ast.expr]:
    """The names that a statement does nothing but bind to empty lists: `rows = []`, `a, b = [], []`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return {}
    target, value = statement.targets[0], statement.value
    pairs = [(target, value)]
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = [*zip(target.elts, value.elts, strict=True)]
    if not all(isinstance(t, ast.Name) and is_empty(v) for t, v in pairs):
        return {}
    return {t.id: t for t, _ in pairs if isinstance(t, ast.Name)}


def _without_statement(sites: Sites, statement: ast.stmt) -> Edit:
    """Remove a statement with its line, or leave its comment there."""
    source = sites.source
    _, end = offsets(source, statement)
    line, column = source.position(end)
    rest = source.line(line)[column:]
    if "#" in rest:
        start, _ = offsets(source, statement)
        return edit_between(source, start, end + rest.index("#"), "")
    return replace_statements(sites.tree, [statement], [])


def _replace_loop(sites: Sites, node: ast.For | ast.While, loop: Loop, lines: Sequence[tuple[ast.stmt, str]]) -> Edit:
    """Put `lines` in the loop's place. Its comments stay, behind or above the line that replaces their statement."""
    source = sites.source
    texts: dict[ast.stmt, list[str]] = {}
    for statement, text in lines:
        texts.setdefault(statement, []).append(text)
    result: list[str] = []
    done = offsets(source, node)[0]
    for statement in loop.body:
        start, end = offsets(source, statement)
        result += _comments(source.text[done:start])
        done = source.offset(statement.end_lineno or 0, len(source.line(statement.end_lineno or 0)))
        inner, behind = _comments(source.text[start:end]), _comments(source.text[end:done])
        own = [row for text in texts.get(statement, []) for row in text.split("\n")]
        if own and behind:
            result += [*inner, *own[:-1], f"{own[-1]}  {behind[0]}"]
        else:
            result += [*inner, *behind, *own]
    end = source.offset(node.end_lineno or 0, len(source.line(node.end_lineno or 0)))
    result += _comments(source.text[done:end])
    done = max(done, end)
    if result:
        first = source.offset(node.lineno, 0) + len(source.indentation(node.lineno))
        indent = source.indentation(node.lineno).replace(FORM_FEED, "")
        return edit_between(source, first, done, f"{source.newline}{indent}".join(result))
    return replace_statements(sites.tree, [node], [])


def _comments(text: str) -> list[str]:
    """What looks like a comment in a stretch of text, one for each of its lines."""
    return [line[line.index("#") :].rstrip() for line in text.splitlines() if "#" in line]


def _require_independent(sites: Sites, loop: Loop, node: ast.For | ast.While, rounds: Rounds) -> None:
    """Refuse if a round may read what another one wrote."""
    texts = {text for text, _ in rounds.written}
    places = {place for _, place in rounds.written}
    own = frozenset(rounds.bound | {name for inner in rounds.loops for name in inner.variables})
    for place in places:
        shared = aliases(loop.function, place)
        if any(other != place and any(overlap(other, s) for s in shared) for other in places):
            raise RefusedError(f"`{place}` may share its memory with something else that the loop writes")
        for inner in rounds.loops:
            named = named_slices(sites, inner.node)
            for name, element in inner.elements.items():
                base = root(element.base) or ""
                if not texts & {name, named.get(name, "")} and any(overlap(base, s) for s in shared):
                    raise RefusedError(f"`{name}` is a slice of what the loop writes to")
        for statement in loop.body:
            for read in walk(statement):
                if _reads_elsewhere(sites, read, shared, texts, own):
                    raise RefusedError(f"a round may read what another one wrote to `{place}`")
    for appended in rounds.appended:
        if sum(_is_named(n, appended.name) for n in walk(node)) != 1:
            raise RefusedError(f"`{appended.name}` is read inside the loop")
    for name in rounds.totals:
        shared = aliases(loop.function, name) - {name}
        if any(overlap(place, s) for place in places for s in shared) or _adds_in_place(node, name, shared):
            raise RefusedError(f"`{name}` may share its memory with something else")
    known = {*places, *rounds.totals, *(a.name for a in rounds.appended)}
    steps = set(node.body) - {*loop.body}
    for changed, place in changes(node):
        if changed not in steps and (place is None or not (place in known or place in own)):
            raise RefusedError(f"the loop changes `{place}`")


def _adds_in_place(node: ast.For | ast.While, name: str, shared: frozenset[str]) -> bool:
    """Whether `name += part` may change a tensor that the loop reads under another name."""
    augmented = any(isinstance(n, ast.AugAssign) and dotted(n.target) == name for n in walk(node))
    reads = {dotted(n) for n in walk(node) if isinstance(n, (ast.Name, ast.Attribute))}
    return augmented and any(r is not None and overlap(r, s) for r in reads for s in shared)


def _reads_elsewhere(
    sites: Sites, read: ast.AST, shared: frozenset[str], texts: set[str], bound: frozenset[str]
) -> bool:
    """Whether `read` may see memory of `place` beyond the slice that the round itself writes."""
    if not isinstance(read, (ast.Name, ast.Attribute)) or isinstance(read.ctx, ast.Store):
        return False
    name = dotted(read)
    parent = sites.tree.parent(read)
    if name is None:
        return False
    if isinstance(parent, ast.Attribute) and parent.attr not in METADATA:
        # Of `self.cache.data` only the longest chain counts; a method call on a place is a read of it.
        grand = sites.tree.parent(parent)
        if not (isinstance(grand, ast.Call) and grand.func is parent):
            return False
    if not any(overlap(name, s) for s in shared) or name.split(".")[0] in bound or name == "self":
        return False
    if any(isinstance(n, ast.Attribute) and n.attr in METADATA for n in (read, parent)):
        return False
    return not (isinstance(parent, ast.Subscript) and parent.value is read and sites.tree.text(parent) in texts)


# -- one expression out of a loop that has to stay


def hoisted(sites: Sites, call: ast.expr, wanted: str) -> tuple[Edit, ...]:
    """Compute `call` for all rounds before the loop, into a new name, and take the round's part inside it.

    Where the loop has no counter, and only `call` reads its variable, the loop runs over the parts instead.
    Raises `RefusedError`.
    """
    tree = sites.tree
    node = next(tree.loops(call), None)
    loop = loop_of(sites, node) if isinstance(node, (ast.For, ast.While)) else None
    if loop is None or not isinstance(node, (ast.For, ast.While)):
        raise RefusedError("the loop does not count up or run over a tensor")
    if loop.start or loop.step > 1:
        raise RefusedError("the loop does not count from 0 in steps of 1")
    if leaves_early(node) or skips_rounds(node) or tree.statement(call) not in loop.body:
        raise RefusedError("it does not happen in every round")
    if not stands_alone(tree, node):
        raise RefusedError("the loop shares a line with other code")
    lifter = lifter_for(sites, loop)
    _know_temporaries(lifter, node, tree.statement(call))
    value = lifter.lift(call)
    if isinstance(value, Fixed):
        raise RefusedError("every round gives the same value")
    value = arranged(value, value.natural)
    _require_unchanged(loop, node, call)
    name = sites.fresh_name(loop.function, call, wanted)
    if loop.index is not None:
        inside = [replace_node(sites.source, call, indexed(name, [*[":"] * value.loop, loop.index]))]
    elif isinstance(node, ast.While):
        raise RefusedError("the loop has no counter to pick a round's part with")
    else:
        inside = _iterated_parts(sites, loop, node, call, f"{name}.unbind({value.loop})" if value.loop else name)
    lines = [*lifter.lines_before(value.text), f"{name} = {value.text}"]
    edits = checked(
        sites.source, [insert_before(tree, node, [lifter.lengths.finished(line) for line in lines]), *inside]
    )
    if edits is None:
        raise RefusedError("the edits do not fit together")
    return edits


def _iterated_parts(sites: Sites, loop: Loop, node: ast.For, call: ast.expr, parts: str) -> list[Edit]:
    """Run the loop over `parts`, whose round's part takes the place of `call`."""
    names = list(loop.elements)
    used = [n for n in walk(loop.function) if isinstance(n, ast.Name) and n.id in names]
    if len(names) != 1 or not isinstance(node.target, ast.Name) or loop.backwards:
        raise RefusedError("the loop has no counter to pick a round's part with")
    inside = {id(n) for n in walk(call)}
    if any(id(n) not in inside for n in used if n is not node.target):
        raise RefusedError("the loop needs its variable for more, and has no counter")
    return [replace_node(sites.source, node.iter, parts), replace_node(sites.source, call, names[0])]


def _know_temporaries(lifter: Lifter, node: ast.For | ast.While, until: ast.stmt) -> None:
    """Let the lifter see through `ids = x[:, t]` in front of the expression."""
    for statement in node.body[: node.body.index(until)]:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target = statement.targets[0]
        stores = sum(
            isinstance(n, ast.Name)
            and isinstance(target, ast.Name)
            and n.id == target.id
            and isinstance(n.ctx, ast.Store)
            for n in walk(node)
        )
        if not isinstance(target, ast.Name) or stores != 1:
            continue
        try:
            value = lifter.lift(statement.value)
        except RefusedError:
            continue
        if isinstance(value, Batched) and value.view:
            lifter.values[target.id] = value


def _require_unchanged(loop: Loop, node: ast.For | ast.While, call: ast.expr) -> None:
    """Refuse if a round may change what the expression reads."""
    reads = {place for n in walk(call) if isinstance(n, (ast.Name, ast.Attribute)) and (place := dotted(n))}
    shared = {s for place in reads if place != "self" for s in aliases(loop.function, place)}
    for changed, place in changes(node):
        if changed in node.body and changed not in loop.body:
            continue
        if place is None or any(overlap(place, s) for s in shared if s != "self"):
            raise RefusedError(f"the loop changes `{place}`")
    methods = {n.attr for n in walk(node) if isinstance(n, ast.Attribute)}
    if methods & {"step", "backward", "load_state_dict"}:
        raise RefusedError("the weights may change inside the loop")
