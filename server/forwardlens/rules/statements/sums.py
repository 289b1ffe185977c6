"""What adds up over the rounds: sums are added once, running values compared once."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from forwardlens.rules.batched import Batched, Fixed, RefusedError, arranged, live_loops, seen_in, wrapped
from forwardlens.rules.loops import stop_is_count, surely_runs
from forwardlens.rules.operations import is_torch_function
from forwardlens.rules.statements.work import Work
from forwardlens.source.rewrite import splice
from forwardlens.source.tree import dotted, integer, walk

# How a running value and a round's value are put together, and what does that for all rounds at once.
_RUNNING = {"maximum": "amax", "minimum": "amin", "max": "amax", "min": "amin"}


def accumulate(work: Work, node: ast.Assign | ast.AugAssign, name: str, parts: Sequence[ast.expr]) -> None:
    """`total = total + part`: the sum over all rounds is added once."""
    _require_alone(work, node, name)
    sums: dict[ast.expr, str] = {}
    for part in parts:
        value = work.lifter.lift(part)
        sums[part] = _times(work, part, value) if isinstance(value, Fixed) else summed(value)
    work.totals.add(name)
    work.lines.append(splice(work.sites.source, node, sums))


def _times(work: Work, part: ast.expr, value: Fixed) -> str:
    """What is the same in every round, as often as there are rounds."""
    loop = work.loop
    if len(work.lifter.loops) > 1 or loop.stop is None or loop.start or loop.step > 1:
        raise RefusedError("every round adds the same value")
    if not stop_is_count(loop.stop) or work.varies(loop.stop):
        raise RefusedError("every round adds the same value")
    count = work.text(loop.stop)
    return count if integer(part) == 1 else f"{wrapped(value.text, value.atom)} * {count}"


def running(work: Work, node: ast.Assign, name: str, method: str, part: ast.expr) -> None:
    """`best = torch.maximum(best, part)`: the largest of all rounds is compared once."""
    _require_alone(work, node, name)
    grad = work.sites.context.profile.grad
    if grad.outputs_require_grad or grad.backward_ran:
        raise RefusedError("where rounds give the same value, the gradient would be shared out in another way")
    if not all(surely_runs(loop) for loop in work.lifter.loops):
        raise RefusedError("a loop without rounds would have no largest value")
    value = work.lifter.lift(part)
    if isinstance(value, Fixed):
        raise RefusedError("every round gives the same value")
    work.totals.add(name)
    work.lines.append(splice(work.sites.source, node, {part: summed(value, method)}))


def _require_alone(work: Work, node: ast.Assign | ast.AugAssign, name: str) -> None:
    uses = [n for n in walk(work.lifter.loops[0].node) if isinstance(n, ast.Name) and n.id == name]
    if len(uses) != (1 if isinstance(node, ast.AugAssign) else 2):
        raise RefusedError(f"`{name}` is used in the loop while it adds up")
    if any(name in loop.variables for loop in work.lifter.loops):
        raise RefusedError(f"`{name}` is bound twice in a round")


def summed(value: Batched, method: str = "sum") -> str:
    """All rounds' values added up, or put together by another reduction."""
    if len(live_loops([value])) != len(value.loops):
        raise RefusedError("every round of a loop gives the same value")
    put = seen_in(value, live_loops([value]))
    put = arranged(put, put.natural)
    dims = ", ".join(str(d) for d in put.loops)
    return f"{wrapped(put.text, put.atom)}.{method}({dims if len(put.loops) == 1 else f'({dims})'})"


def running_value(module: ast.Module, node: ast.Assign) -> tuple[str, ast.expr] | None:
    """`("amax", part)` for `best = torch.maximum(best, part)`."""
    call, name = node.value, dotted(node.targets[0])
    if not isinstance(call, ast.Call) or len(call.args) != 2 or call.keywords:
        return None
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _RUNNING:
        return None
    if not is_torch_function(module, call.func):
        return None
    one, other = call.args
    if dotted(one) == name:
        return _RUNNING[call.func.attr], other
    return (_RUNNING[call.func.attr], one) if dotted(other) == name else None


def added_to_itself(node: ast.stmt) -> tuple[ast.expr, ...]:
    """What a statement adds to a name, or takes from it: `a` and `b` of `x = x + a - b`, `a` of `x += a`."""
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return (node.value,) if isinstance(node.op, (ast.Add, ast.Sub)) else ()
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return ()
    name, value, parts = node.targets[0].id, node.value, list[ast.expr]()
    while isinstance(value, ast.BinOp) and isinstance(value.op, (ast.Add, ast.Sub)):
        if dotted(value.right) == name and isinstance(value.op, ast.Add) and dotted(value.left) != name:
            return (*reversed([*parts, value.left]),)
        parts.append(value.right)
        value = value.left
    return (*reversed(parts),) if parts and dotted(value) == name else ()
