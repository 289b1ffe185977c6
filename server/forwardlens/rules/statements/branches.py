"""Conditions: the same for all rounds, or asked of each round's own value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from forwardlens.rules.batched import Batched, Fixed, RefusedError, Value, meeting, wrapped
from forwardlens.rules.lifting.broadcasting import together
from forwardlens.rules.lifting.lifter import Lifter
from forwardlens.rules.lifting.operators import condition as condition_of
from forwardlens.rules.statements.regions import assignable, region_of, whole, written_rank
from forwardlens.rules.statements.work import Work
from forwardlens.source.dataflow import fresh_name, names_bound
from forwardlens.source.tree import walk

# What may be computed for rounds that skipped it: no value of it is infinite or undefined where its operands are not,
# so that a gradient through the unused side stays zero.
_HARMLESS = frozenset(
    """relu sigmoid tanh gelu silu clamp clip abs neg add sub mul maximum minimum where masked_fill float double half
    bfloat16 long int bool to type_as sin cos sum mean unsqueeze squeeze transpose permute view reshape linear embedding
    matmul expand size item""".split()
)
_SIGNS: dict[type[ast.operator], str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_Pair = tuple[ast.stmt | None, ast.stmt | None]


def branch(work: Work, node: ast.If) -> None:
    """`if wanted:` and what comes under it."""
    if not work.lifter.varies(node.test):
        return _same_branch(work, node)
    return _select(work, node.test, node.body, node.orelse)


def skipped(work: Work, node: ast.If, rest: Sequence[ast.stmt]) -> None:
    """`if not wanted: continue` and the rest of the round."""
    if not work.lifter.varies(node.test):
        raise RefusedError(f"line {node.lineno} may leave the round early")
    _select(work, ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test), rest, [])


def _same_branch(work: Work, node: ast.If) -> None:
    """A branch that all rounds take or none: the condition stays around its lines."""
    work.lifter.require_pure(node.test)
    bound = {name for part in (*node.body, *node.orelse) for name in names_bound(part)}
    for name in sorted(bound):
        before = work.lifter.values.get(name)
        if isinstance(before, Batched) and before.view:
            work.lines.append(f"{name} = {before.text}")
            work.lifter.values[name] = replace(before, text=name, atom=True, cut=None)
    before, count = dict(work.lifter.values), len(work.appended)
    texts: list[list[str]] = []
    after: list[dict[str, Value]] = []
    for side in (node.body, node.orelse):
        work.lifter.values = dict(before)
        texts.append([line for _, lines in work.block(side) for line in lines])
        after.append(work.lifter.values)
    if len(work.appended) != count:
        raise RefusedError("what a list gets depends on a condition")
    if any(line in work.made for lines in texts for line in lines):
        raise RefusedError("a mask is made under a condition")
    work.filled = {line: filled for line, filled in work.filled.items() if line not in {t for b in texts for t in b}}
    work.lifter.values = before
    for name in sorted(bound - work.totals):
        one, other = (values.get(name) for values in after)
        if one is None or other is None:
            work.lifter.values.pop(name, None)
        elif not _same_shape(one, other, name):
            raise RefusedError(f"`{name}` has other dimensions after one branch than after the other")
        else:
            view = isinstance(one, Batched) and isinstance(other, Batched) and (one.view or other.view)
            if view and work.lifter.writes:
                raise RefusedError(f"`{name}` may or may not be a copy of what the loop writes to")
            work.lifter.values[name] = replace(one, view=view) if isinstance(one, Batched) else one
            work.rebound.add(name)
    lines = [f"if {work.text(node.test)}:", *(_indented(work, texts[0] or ["pass"]))]
    if texts[1]:
        lines += ["else:", *_indented(work, texts[1])]
    work.lines.append("\n".join(lines))


def _indented(work: Work, lines: Sequence[str]) -> list[str]:
    return [f"{work.unit}{row}" for line in lines for row in line.split("\n")]


def _select(work: Work, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
    """A branch on each round's own value: both sides are computed and each round's is selected."""
    condition = condition_of(work.lifter, test)
    if condition.slots and any(s is not None for s in condition.slots):
        raise RefusedError("a condition has several elements")
    condition = replace(condition, slots=())
    if any(not _is_harmless(work.lifter, s) for s in (*body, *orelse)):
        raise RefusedError("a branch may guard what it computes")
    before = set(work.lifter.values)
    pairs = _pairs(_without_own(work, body), _without_own(work, orelse))
    if pairs is None:
        raise RefusedError("the branches do different things")
    if len(pairs) > 1:
        # What the first of them changes may be what the condition asks.
        name = fresh_name(work.loop.function, "taken")
        work.lines.append(f"{name} = {condition.text}")
        condition = replace(condition, text=name, atom=True, cut=None)
    for pair in pairs:
        _selected(work, condition, *pair)
    for name in set(work.lifter.values) - before:
        del work.lifter.values[name]


def _without_own(work: Work, branch: Sequence[ast.stmt]) -> list[ast.stmt]:
    """A branch without the names that it starts with and has to itself, which all rounds get."""
    rest = [*branch]
    while len(rest) > 1 and isinstance(rest[0], ast.Assign):
        target = rest[0].targets[0]
        if not isinstance(target, ast.Name) or len(rest[0].targets) > 1 or target.id in work.lifter.values:
            break
        work.bind(target.id, rest[0].value)
        rest.pop(0)
    return rest


def _selected(work: Work, condition: Batched, yes: ast.stmt | None, no: ast.stmt | None) -> None:
    """One target that a branch gives a value, or both do."""
    target = _target_of(yes or no)
    if isinstance(target, ast.Subscript):
        region = whole(work, region_of(work, target), target)
        old: Batched = region
        values = [_after(work, s, target, region) if s is not None else region for s in (yes, no)]
        for statement in (yes, no):
            other = _target_of(statement)
            if isinstance(other, ast.Subscript):
                work.written.append((work.text(other), work.written[-1][1]))
    elif isinstance(target, ast.Name):
        current = work.lifter.values.get(target.id)
        if not isinstance(current, Batched):
            raise RefusedError(f"`{target.id}` carries a value from one round to the next")
        old = current
        values = [_after(work, s, target, current) if s is not None else current for s in (yes, no)]
    else:
        raise RefusedError("a branch does more than compute a value")
    work.lifter.meet([condition, *values])
    texts, shape = together([condition, *values])
    text = f"{work.lifter.torch}.where({', '.join(t for t, _ in texts)})"
    chosen = replace(shape, text=text)
    if chosen.round_rank != old.round_rank:
        raise RefusedError("a branch changes the number of dimensions")
    if isinstance(target, ast.Name):
        work.forget(target.id)
        work.rebound.add(target.id)
        work.lines.append(f"{target.id} = {text}")
        work.lifter.values[target.id] = replace(chosen, text=target.id, atom=True)
        return
    filled = _filling(condition, values, old)
    work.lines.append(filled or f"{assignable(old)} = {meeting(chosen, old)}")


def _filling(condition: Batched, values: Sequence[Value], region: Batched) -> str | None:
    """One `masked_fill_` where a branch writes a number."""
    value, kept = values
    if not isinstance(value, Fixed) or kept is not region or value.rank != 0:
        return None
    return f"{region.text}.masked_fill_({meeting(condition, region)}, {value.text})"


def _after(work: Work, node: ast.stmt, target: ast.expr, old: Batched) -> Value:
    """What a branch's statement makes of `target`."""
    if isinstance(node, ast.AugAssign):
        sign = _SIGNS.get(type(node.op))
        value = work.known(work.lifter.lift(node.value), node)
        if sign is None:
            raise RefusedError("a branch does more than compute a value")
        work.lifter.meet([old, value])
        texts, shape = together([old, value])
        one, other = (wrapped(text, atom) for text, atom in texts)
        literal = isinstance(node.value, ast.UnaryOp) and isinstance(node.value.operand, ast.Constant)
        return replace(shape, text=f"{one} {sign} {texts[1][0] if literal else other}", atom=False)
    assert isinstance(node, ast.Assign)
    value = work.lifter.lift(node.value)
    if isinstance(value, Fixed) and value.rank is None:
        seen = written_rank(work, target) if isinstance(target, ast.Subscript) else None
        return replace(value, rank=seen)
    return value


def _same_shape(one: Value, other: Value, name: str) -> bool:
    if isinstance(one, Fixed) or isinstance(other, Fixed):
        return isinstance(one, Fixed) and isinstance(other, Fixed) and one.rank == other.rank
    same = (one.rank, one.loops, one.slots) == (other.rank, other.loops, other.slots)
    return same and one.text == other.text == name


def _pairs(body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> list[_Pair] | None:
    """The statements of two branches that give the same target a value, side by side. None if they do not match."""
    one = [s for s in body if not isinstance(s, ast.Pass)]
    other = [s for s in orelse if not isinstance(s, ast.Pass)]
    if any(_target_of(s) is None for s in (*one, *other)):
        return None
    if not one or not other:
        return [*((s, None) for s in one), *((None, s) for s in other)]
    if [ast.unparse(t) for s in one if (t := _target_of(s))] != [ast.unparse(t) for s in other if (t := _target_of(s))]:
        return None
    return [*zip(one, other, strict=True)]


def _target_of(statement: ast.stmt | None) -> ast.expr | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0]
    return statement.target if isinstance(statement, ast.AugAssign) else None


def _is_harmless(lifter: Lifter, statement: ast.stmt) -> bool:
    """Whether a branch's statement may be computed for rounds that skipped it."""
    if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Div) and lifter.varies(statement.value):
        return False
    for node in walk(statement):
        if isinstance(node, ast.BinOp) and not isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
            if not isinstance(node.op, ast.Div) or lifter.varies(node.right):
                return False
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else None
            if name not in _HARMLESS:
                return False
        elif isinstance(node, (ast.NamedExpr, ast.IfExp, ast.Await, ast.Yield)):
            return False
    return True
