"""What a loop variable that takes the slices of a tensor stands for."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import replace

from forwardlens.rules.batched import Batched, Cut, Fixed, RefusedError, indexed, wrapped
from forwardlens.rules.effects import changes
from forwardlens.rules.heads import Element, sliced
from forwardlens.rules.lifting.ranks import iterated_rank, rank_in_use, rank_of_cut, rank_of_made
from forwardlens.rules.lifting.scope import Scope, count_text, key_of
from forwardlens.rules.loops import Loop
from forwardlens.rules.operations import CATS
from forwardlens.rules.windows import marked
from forwardlens.source.dataflow import assignment_read, bindings, names_read, overlap
from forwardlens.source.tree import Function, argument, dotted, integer, is_atom, walk


def element(scope: Scope, depth: int, name: str) -> Batched:
    """The slices that the variable `name` of loop number `depth` takes."""
    element = scope.loops[depth].elements[name]
    known = _list_behind(scope, depth, element.base)
    element = element if known is None else replace(known, partners=element.partners)
    base = element.base
    if scope.varies(base):
        return _element_of_round(scope, depth, element)
    scope.require_pure(base)
    if _is_list(scope, element):
        return _stacked(scope, depth, name, base)
    rank, axis = placed(scope, element, name)
    text, atom = scope.text(base), not isinstance(base, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.IfExp))
    text = text if element.part is None else f"{scope.name_in_front(text, 'pieces')}[{element.part}]"
    slots = slots_of(element, rank, axis)
    if element.cut is not None:
        text, atom = f"{wrapped(text, atom)}.unflatten({axis}, ({_pieces(scope, element, axis)}))", True
        rank += 1
        slots = tuple(d for d in range(rank) if d != axis)
    cut = _shortest(scope, scope.loops[depth], element) if element.partners else None
    if cut is not None:
        items = [*[":"] * axis, cut, *[":"] * (rank - 1 - axis)]
        whole = Cut(text, atom, (*items,))
        return Batched(indexed(text, items, atom=atom), rank, scope.only(depth, axis), slots, cut=whole, view=True)
    return Batched(text, rank, scope.only(depth, axis), slots, atom, view=True)


def _list_behind(scope: Scope, depth: int, base: ast.expr) -> Element | None:
    """What a loop runs over that is a name for a list of slices, which is then read for them."""
    function = scope.loops[depth].function
    made = assignment_read(scope.sites.tree, function, base) if isinstance(base, ast.Name) else None
    known = None if made is None or not isinstance(base, ast.Name) else listed(scope, function, made, base.id)
    if known is not None and made is not None:
        scope.lists_read.add(made)
    return known


def placed(scope: Scope, element: Element, name: str | None = None) -> tuple[int, int]:
    """The rank of the tensor whose slices are taken, and their axis counted from the front."""
    whole = element.kept or element.cut is not None
    if element.made is not None:
        rank = rank_of_made(scope, element.made)
    else:
        rank = rank_of_cut(scope, element.base) if whole else iterated_rank(scope, element.base, name)
    return rank, element.axis + rank if element.axis < 0 else element.axis


def slots_of(element: Element, rank: int, axis: int) -> tuple[int | None, ...]:
    """The dimensions of a slice, in the tensor that holds all of them along `axis`."""
    return tuple(None if d == axis else d for d in range(rank) if d != axis or element.kept)


def _is_list(scope: Scope, element: Element) -> bool:
    """Whether a loop runs over a list of tensors: over a name that no operator takes slices of."""
    if element.partners or element.kept or element.cut is not None or dotted(element.base) is None:
        return False
    around = [element.base, *itertools.islice(scope.sites.tree.ancestors(element.base), 2)]
    return not any(scope.sites.op(n, "aten::unbind") for n in around)


def _stacked(scope: Scope, depth: int, name: str, base: ast.expr) -> Batched:
    """The tensors of a list as one. Only where the rounds' results are joined in a way that needs equal shapes."""
    rank = rank_in_use(scope, name)
    if not _need_equal_shapes(scope, name):
        raise RefusedError(f"the tensors in `{scope.text(base)}` may differ in shape")
    listed = scope.text(base) if isinstance(base, ast.Name) else f"list({scope.text(base)})"
    text = f"{scope.torch}.stack({listed})"
    scope.needs_rounds.append(text)
    uses = sum(isinstance(n, ast.Name) and n.id == name for n in walk(scope.loop.node))
    if uses > 2:
        # More than where the loop gives it a value and one that reads it.
        whole = scope.sites.fresh_name(scope.loop.function, scope.loop.node, f"{name}_all")
        scope.before[whole] = text
        text = whole
    return Batched(text, rank + 1, scope.only(depth, 0), tuple(range(1, rank + 1)))


def _need_equal_shapes(scope: Scope, name: str) -> bool:
    """Whether everything that the function joins is stacked, or joined along what a table or a layer adds."""
    sites = scope.sites
    for call in (n for n in walk(scope.loop.function) if isinstance(n, ast.Call)):
        leaf = (dotted(call.func) or "").split(".")[-1]
        if leaf in CATS:
            reads = [n for n in walk(scope.loop.node) if isinstance(n, ast.Name) and n.id == name]
            added = [sites.tree.parent(n) for n in reads if isinstance(n.ctx, ast.Load)]
            known = all(sites.op(n, "aten::embedding", "aten::linear") for n in added if n is not None)
            if integer(argument(call, 1, "dim")) != -1 or not known:
                return False
    return True


def _pieces(scope: Scope, element: Element, axis: int) -> str:
    """The number and the size of the pieces that a dimension is cut into, -1 for the one that follows."""
    given = element.width or element.pieces
    if given is None or scope.varies(given):
        raise RefusedError("the number of pieces changes inside the loop")
    if element.width is None:
        return f"{scope.text(given)}, -1"
    if axis == 0:
        raise RefusedError("the last piece may be shorter than the others")
    return f"-1, {scope.text(given)}"


def listed(scope: Scope, function: Function, made: ast.Assign, name: str) -> Element | None:
    """What `columns` has the slices of, where `columns = x.unbind(1)` or the like gives it its value."""
    if len(made.targets) != 1 or name != dotted(made.targets[0]):
        return None
    element = sliced(made.value)
    place = dotted(element.base)
    if element.base is made.value or place is None:
        return None
    if any(p is None or overlap(p, name) for _, p in changes(scope.sites, function)):
        raise RefusedError(f"`{name}` may change")
    if any(store is not made and not isinstance(store, ast.arg) for store in bindings(function, place)):
        raise RefusedError(f"`{place}` is bound again after `{name}` was made of it")
    return element


def paired_element(scope: Scope, depth: int, name: str, of: ast.expr) -> Batched:
    """The slices that one of the two variables of `combinations(x, 2)` takes."""
    element = _list_behind(scope, depth, of) or sliced(of)
    base = element.base
    if scope.varies(base) or element.cut is not None:
        raise RefusedError("what the loop runs over changes inside it")
    scope.require_pure(base)
    rank, axis = placed(scope, element)
    text = wrapped(scope.text(base), is_atom(base))
    numbers = scope.numbers_of_pairs(depth, name, f"{text}.size({axis})", text)
    picked = indexed(text, [numbers if d == axis else ":" for d in range(rank)])
    return Batched(picked, rank, scope.only(depth, axis), slots_of(element, rank, axis))


def _element_of_round(scope: Scope, depth: int, element: Element) -> Batched:
    """A slice of what an outer loop gives: `for word in row` inside `for row in x`."""
    inside = {name for loop in scope.loops[depth:] for name in loop.variables}
    if inside & {scope.own_name(name) for name in names_read(element.base)}:
        # `for row in row`: the name means another thing in front of the loop.
        raise RefusedError("what the loop runs over changes inside it")
    value = scope.lift(element.base)
    if isinstance(value, Fixed) or element.partners or element.kept or element.cut is not None:
        raise RefusedError("what the loop runs over changes inside it")
    if value.loops[depth] is not None or not -value.round_rank <= element.axis < value.round_rank:
        raise RefusedError("what the loop runs over changes inside it")
    axis = element.axis % value.round_rank
    along = value.slots[axis]
    if along is None:
        raise RefusedError("a loop runs over a dimension of size 1")
    loops = tuple(along if k == depth else d for k, d in enumerate(value.loops))
    return replace(value, loops=loops, slots=(*value.slots[:axis], *value.slots[axis + 1 :]))


def _shortest(scope: Scope, loop: Loop, element: Element) -> str | None:
    """The slice that cuts a tensor of a `zip` to the shortest of the others; None if they are as long by their text."""
    own = count_text(scope, element)
    lengths = [*dict.fromkeys(text for other in element.partners if (text := count_text(scope, other)) != own)]
    if not lengths:
        return None
    cut = f": {lengths[0]}" if len(lengths) == 1 else f": min({', '.join(lengths)})"
    every = [element, *element.partners]
    scope.lengths.shapes[key_of(loop)] = _shapes_seen(scope, every)
    scope.lengths.zipped[key_of(loop)] = {f"{key_of(loop)}|{scope.text(e.base)}.{e.axis}" for e in every}
    return marked(key_of(loop), f"{scope.text(element.base)}.{element.axis}", cut)


def _shapes_seen(scope: Scope, every: Sequence[Element]) -> int:
    """How many lengths the run saw the tensors of a `zip` with; 0 if it does not tell."""
    lengths: set[int] = set()
    for element in (e for e in every if e.cut is None):
        around = scope.sites.tree.parent(element.base) if element.made is None else element.made
        if isinstance(around, ast.Attribute):
            # Of `x.unbind(1)` and `x.split(1)` the run tells what each was called on.
            around = scope.sites.tree.parent(around)
        op = scope.sites.op(around, "aten::unbind", "aten::split") if around is not None else None
        axis = element.axis
        if op is None or op.shape_variants != len(op.variants) or any(len(v[0]) <= axis for v in op.variants):
            return 0
        lengths |= {shapes[0][axis] for shapes in op.variants}
    return len(lengths)
