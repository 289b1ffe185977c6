"""What the rules about loops share: how often a loop ran, where its finding points, and edits beside it."""

from __future__ import annotations

import ast

from forwardlens.model import Edit, ExpressionCost, Related, Span
from forwardlens.rules.evidence import Sites
from forwardlens.source.dataflow import names_bound
from forwardlens.source.rewrite import FORM_FEED
from forwardlens.source.tree import Function, Looping, Tree, dotted, walk

# Fewer rounds than this are cheap to leave alone.
LEAST_ROUNDS = 4
# Above this host time per operator a loop is not limited by dispatch: its operators have work of their own.
DISPATCH_MS = 0.05


def in_rounds(cost: ExpressionCost | None) -> bool:
    """Whether an expression ran often enough inside one call of its function."""
    return cost is not None and cost.calls_per_entry >= LEAST_ROUNDS


def head(sites: Sites, loop: Looping) -> Related:
    """The part of a loop that says what it runs over."""
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        return Related(sites.source.span(loop.iter), "the loop that repeats it")
    if isinstance(loop, ast.While):
        return Related(sites.source.span(loop.test), "the loop that repeats it")
    return Related(sites.source.span(loop), "the loop that repeats it")


def place(sites: Sites, node: ast.AST) -> Span:
    """Where a node that has a cost stands."""
    assert isinstance(node, (ast.expr, ast.stmt))
    return sites.source.span(node)


def body(loop: Looping) -> list[ast.AST]:
    """What a loop runs in every round."""
    if isinstance(loop, (ast.For, ast.AsyncFor, ast.While)):
        return [*loop.body]
    if isinstance(loop, ast.DictComp):
        return [loop.key, loop.value]
    return [loop.elt]


def shown(text: str, most: int = 40) -> str:
    """Source text for a message: on one line, and short."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def reads_of(node: ast.AST, place: str) -> list[ast.AST]:
    """The loads of a name or dotted place in `node`."""
    return [
        n
        for n in walk(node)
        if isinstance(n, (ast.Name, ast.Attribute)) and isinstance(n.ctx, ast.Load) and dotted(n) == place
    ]


def nested_functions(function: Function) -> list[ast.AST]:
    """The functions and lambdas inside `function`, which may run whenever they are called."""
    return [n for n in walk(function) if isinstance(n, (Function, ast.Lambda)) and n is not function]


def bound_in(loop: Looping) -> set[str]:
    """The names that a round gives a value to, the loop's own variables included."""
    found = {name for part in body(loop) for name in names_bound(part)}
    if isinstance(loop, (ast.For, ast.AsyncFor)):
        return found | names_bound(loop.target)
    if isinstance(loop, ast.While):
        return found | names_bound(loop.test)
    return found | {name for g in loop.generators for name in names_bound(g.target)}


def depends_in_round(loop: Looping, node: ast.AST, places: set[str]) -> bool:
    """Whether `node` reads one of `places`, directly or through names that the loop's body binds."""
    sources: dict[str, list[ast.AST]] = {}
    for part in (n for b in body(loop) for n in walk(b)):
        if isinstance(part, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.NamedExpr)) and part.value is not None:
            targets = part.targets if isinstance(part, ast.Assign) else [part.target]
            for name in {name for t in targets for name in names_bound(t)} - places:
                sources.setdefault(name, []).append(part.value)
        elif isinstance(part, (ast.For, ast.AsyncFor)):
            for name in names_bound(part.target) - places:
                sources.setdefault(name, []).append(part.iter)
    todo, seen = [node], set[str]()
    while todo:
        current = todo.pop()
        for read in walk(current):
            place = dotted(read) if isinstance(read, (ast.Name, ast.Attribute)) else None
            if place is None:
                continue
            if place in places:
                return True
            if place in sources and place not in seen:
                seen.add(place)
                todo += sources[place]
    return False


def insert_after(tree: Tree, statement: ast.stmt, lines: list[str]) -> Edit:
    """Put `lines` behind a statement that stands alone, in its indentation."""
    source = tree.source
    end_line = statement.end_lineno or statement.lineno
    column = len(source.line(end_line))
    indent = source.indentation(statement.lineno).replace(FORM_FEED, "")
    text = "".join(f"{source.newline}{indent}{line}" for line in lines)
    return Edit(source.path, (end_line, column), (end_line, column), text)
