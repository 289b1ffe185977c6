"""A whole loop, or a comprehension, replaced by tensor work on whole axes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import replace

from forwardlens.model import Edit
from forwardlens.rules.batched import Batched, Fixed, RefusedError, arranged, flipped, wrapped
from forwardlens.rules.evidence import Sites
from forwardlens.rules.lifting.lifter import lifter_for
from forwardlens.rules.loops import Loop, leaves_early, loop_of, loops_of
from forwardlens.rules.statements.filling import filled_at_once
from forwardlens.rules.statements.rounds import Rounds
from forwardlens.rules.statements.sums import summed
from forwardlens.rules.vectorise.independence import require_independent, require_rounds, written_places
from forwardlens.rules.vectorise.joining import (
    appended_edits,
    in_order,
    join_of,
    joined,
    joins_of,
    made_before,
    owned,
    replace_join,
)
from forwardlens.rules.vectorise.replacing import (
    indent_unit,
    replace_loop,
    statement_in,
    without_statement,
    without_unread,
)
from forwardlens.rules.windows import Lengths
from forwardlens.source.dataflow import read_after, readers
from forwardlens.source.rewrite import checked, insert_before, replace_node, stands_alone
from forwardlens.source.tree import dotted, walk


def vectorised(sites: Sites, node: ast.AST, *, in_evaluation: bool = False) -> tuple[Edit, ...]:
    """The edits that replace the loop at `node`, with the loops around it where that is possible.

    With `in_evaluation` they only have to hold outside of training. Raises `RefusedError`, with the obstacle in the
    loop itself.
    """
    outer = [above for above in sites.tree.loops(node) if isinstance(above, (ast.For, ast.ListComp, ast.GeneratorExp))]
    for above in reversed(outer):
        try:
            return _replaced(sites, above, in_evaluation)
        except RefusedError:
            continue
    return _replaced(sites, node, in_evaluation)


def _replaced(sites: Sites, node: ast.AST, in_evaluation: bool) -> tuple[Edit, ...]:
    lengths = Lengths()
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        edits = _comprehension(sites, node, lengths, in_evaluation)
    else:
        loop = loop_of(sites, node)
        if loop is None or not isinstance(loop.node, (ast.For, ast.While)):
            raise RefusedError("the loop does not count up or run over a tensor")
        edits = _for_edits(sites, loop, loop.node, lengths, in_evaluation)
    fitted = checked(sites.source, edits)
    if fitted is None:
        raise RefusedError("the edits do not fit together")
    return fitted


def _comprehension(
    sites: Sites, node: ast.ListComp | ast.GeneratorExp, lengths: Lengths, in_evaluation: bool
) -> list[Edit]:
    loops = loops_of(sites, node)
    if not loops:
        raise RefusedError("the loop does not count up or run over a tensor")
    lifter = lifter_for(sites, loops[0], lengths, in_evaluation=in_evaluation)
    for loop in loops[1:]:
        lifter = lifter.deeper(loop)
    value = lifter.lift(node.elt)
    if isinstance(value, Fixed):
        raise RefusedError("every round gives the same value")
    statement = sites.tree.statement(node)
    edits = _comprehension_edits(sites, node, loops, lengths.settled(value), lifter.needs_rounds)
    edits += _without_lists(sites, loops[0], {*lifter.lists_read, *(made for loop in loops for made in loop.named)})
    before = [*lifter.lines_in_front(), *lifter.lines_before(value.text)]
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
    join = join_of(sites, node)
    if join is not None:
        return [replace_join(sites, join, in_order(sites, join, owned(joined(value, join, loops))))]
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        name = parent.targets[0].id
        try:
            joins = joins_of(sites, loops[0], name, allowed=[parent.targets[0]])
        except RefusedError:
            joins = []
        if joins:
            whole = in_order(sites, joins[0], owned(joined(value, joins[0], loops)))
            return [
                replace_node(sites.source, node, whole.text),
                *(made_before(sites, join, name) for join in joins),
            ]
    require_rounds(needs_rounds)
    if isinstance(parent, ast.Call) and dotted(parent.func) == "sum" and parent.args == [node]:
        return [replace_node(sites.source, parent, summed(value))]
    if isinstance(node, ast.ListComp) and len(loops) == 1:
        value = arranged(flipped(value) if loops[0].backwards else value, value.natural)
        return [replace_node(sites.source, node, f"list({wrapped(value.text, value.atom)}.unbind({value.loop}))")]
    raise RefusedError("the values are not put together into one tensor")


def _without_lists(sites: Sites, loop: Loop, made: Iterable[ast.Assign]) -> list[Edit]:
    """The edits that take away what only the loop read, as `columns = x.unbind(1)`."""
    gone, edits = {id(n) for n in walk(loop.node)}, list[Edit]()
    # The last one first: it may be all that reads another.
    for start in sorted(made, key=lambda statement: -statement.lineno):
        reads = readers(sites.tree, loop.function, start, dotted(start.targets[0]) or "")
        if all(id(n) in gone for n in reads) and stands_alone(sites.tree, start):
            gone |= {id(n) for n in walk(start)}
            edits.append(without_statement(sites, start))
    return edits


def _for_edits(
    sites: Sites, loop: Loop, node: ast.For | ast.While, lengths: Lengths, in_evaluation: bool
) -> list[Edit]:
    if leaves_early(node):
        raise RefusedError("a round may end early")
    if not stands_alone(sites.tree, node) or not (loop.counted is None or stands_alone(sites.tree, loop.counted)):
        raise RefusedError("the loop shares a line with other code")
    lifter = lifter_for(sites, loop, lengths, in_evaluation=in_evaluation)
    rounds = Rounds(sites, loop, indent_unit(sites, node), lifter)
    rounds.lifter.writes = written_places(loop, node)
    lines = [(statement, line) for statement, own in rounds.block(loop.body) for line in own]
    require_independent(sites, loop, node, rounds)
    if rounds.totals or rounds.writes or rounds.written:
        require_rounds(rounds.lifter.needs_rounds)
    names = {name for inner in rounds.loops for name in inner.variables} | rounds.bound
    names &= {n.id for n in walk(loop.function) if isinstance(n, ast.Name)}
    for name in sorted(names - rounds.totals - {a.name for a in rounds.appended}):
        if read_after(sites.tree, node, name):
            raise RefusedError(f"`{name}` is read after the loop")
    edits: list[Edit] = [] if loop.counted is None else [without_statement(sites, loop.counted)]
    replaced: dict[str, str] = {}
    for line, filled in rounds.filled.items():
        made = filled_at_once(sites, loop, rounds.written, filled)
        if made is not None:
            edits.append(without_statement(sites, made[0]))
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
        more, line = appended_edits(sites, loop, node, settled, {a.name for a in rounds.appended}, later)
        edits += [edit for edit in more if edit not in edits]
        if line is not None:
            lines.append((statement_in(loop, sites, appended.statement), line))
    edits += [without_statement(sites, made.statement) for made in rounds.made.values()]
    edits += _without_lists(sites, loop, {*rounds.lifter.lists_read, *loop.named})
    lines = [*((loop.body[0], line) for line in rounds.lifter.lines_in_front()), *lines]
    order = {statement: n for n, statement in enumerate(loop.body)}
    lines = sorted(((s, lengths.finished(text)) for s, text in lines), key=lambda item: order[item[0]])
    return [*edits, replace_loop(sites, node, loop, without_unread(lines, edits, rounds.bound - rounds.totals))]
