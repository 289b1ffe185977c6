"""The head of a loop: the names that it gives a value in every round, and what of."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from forwardlens.rules.operations import is_torch_function
from forwardlens.source.dataflow import assignment_read, changes, names_bound, names_read, readers
from forwardlens.source.tree import Function, Tree, argument, dotted, integer, one_more, range_arguments, walk

_ITERATORS = frozenset({"zip", "enumerate", "reversed"})


@dataclass(frozen=True)
class Element:
    """A loop variable that takes the slices of `base` along `axis`.

    `partners` are the others of a `zip`: the shortest decides. `pieces` is the number of equal pieces that `chunk`
    makes along `axis`, `width` the size of those that `split` makes; with `kept` the slices keep that axis, with size
    1. `made` is the call that makes the slices where it does not stand around `base`. `part` is given where `base` is a
    call that cuts a tensor itself, and tells which of its pieces this is about.
    """

    base: ast.expr
    axis: int
    partners: tuple[Element, ...] = ()
    kept: bool = False
    pieces: ast.expr | None = None
    width: ast.expr | None = None
    made: ast.expr | None = None
    part: int | None = None

    @property
    def cut(self) -> tuple[str, str] | None:
        """Which of number and size of pieces is given, and how it is written; None for single slices."""
        given = self.pieces if self.width is None else self.width
        return None if given is None else ("size" if self.pieces is None else "number", ast.dump(given))


@dataclass(frozen=True)
class Head:
    """`index` counts from `start` to `stop` in steps of `step`, or along the slices that `elements` take.

    A variable that gets all of a `zip` has an element for each place in it, as `pair[0]`. `named` are assignments
    that only give what the loop runs over a name.
    """

    index: str | None = None
    start: int = 0
    stop: ast.expr | None = None
    elements: dict[str, Element] = field(default_factory=dict[str, Element])
    step: int = 1
    backwards: bool = False
    named: tuple[ast.Assign, ...] = ()


def head_of(tree: Tree, function: Function, loop: ast.AST, target: ast.expr, iterable: ast.expr) -> Head | None:
    """What `for target in iterable` gives a value; None if that is neither numbers nor slices of tensors."""
    return _Heads(tree, function, loop).read(target, iterable)


@dataclass(frozen=True)
class _Heads:
    tree: Tree
    function: Function
    loop: ast.AST

    def read(self, target: ast.expr, iterable: ast.expr) -> Head | None:
        value, named = self._behind(iterable)
        builtin = value.func.id if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None
        if named and builtin not in _ITERATORS:
            value, named = iterable, ()
        head = self._read(target, value, builtin)
        return None if head is None else replace(head, named=(*named, *head.named))

    def _read(self, target: ast.expr, iterable: ast.expr, builtin: str | None) -> Head | None:
        args = iterable.args if isinstance(iterable, ast.Call) else []
        if builtin == "reversed" and len(args) == 1:
            head = self.read(target, args[0])
            return None if head is None else replace(head, backwards=not head.backwards)
        numbers = range_arguments(iterable)
        if numbers is not None:
            return _range(target, numbers)
        if isinstance(iterable, ast.Call) and builtin == "enumerate" and len(args) == 1 and not iterable.keywords:
            if not isinstance(target, ast.Tuple) or len(target.elts) != 2 or not isinstance(target.elts[0], ast.Name):
                return None
            head = self._elements(target.elts[1], args[0])
            return None if head is None else replace(head, index=target.elts[0].id)
        return self._elements(target, iterable)

    def _elements(self, target: ast.expr, iterable: ast.expr) -> Head | None:
        """The variables of `for row in x`, `x.unbind(1)`, `torch.unbind(x, dim=1)`, `zip(x, y)`, `x.chunk(4, -1)`."""
        if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.func.id == "zip":
            return self._zipped(target, iterable)
        return Head(elements={target.id: sliced(iterable)}) if isinstance(target, ast.Name) else None

    def _zipped(self, target: ast.expr, call: ast.Call) -> Head | None:
        parts, named = list[Element](), list[ast.Assign]()
        for arg in call.args:
            count = len(target.elts) - len(call.args) + 1 if isinstance(target, ast.Tuple) else None
            several = self._several(arg.value, count) if isinstance(arg, ast.Starred) else self._single(arg)
            if not several[0]:
                return None
            parts += several[0]
            named += several[1]
        names = _names(target, len(parts))
        if not parts or len({*names}) != len(parts):
            return None
        cuts = {part.cut for part in parts}
        if any(k.arg != "strict" for k in call.keywords) or len(cuts - {None}) > 1:
            return None
        if len(cuts) > 1 and any(part.width is not None for part in parts):
            return None
        # Where the lengths differ the shortest decides, so each is cut to the others. Pieces are as many everywhere.
        strict = any(isinstance(k.value, ast.Constant) and k.value.value is True for k in call.keywords)
        free = strict or None not in cuts
        elements = {
            name: replace(part, partners=() if free else tuple(p for p in parts if p is not part))
            for name, part in zip(names, parts, strict=True)
        }
        return Head(elements=elements, named=(*named,))

    def _single(self, node: ast.expr) -> tuple[tuple[Element, ...], tuple[ast.Assign, ...]]:
        """What an argument gives a `zip`, also a name for `q.chunk(4, -1)`."""
        value, named = self._behind(node)
        part = sliced(value)
        return ((sliced(node),), ()) if part.base is value else ((part,), named)

    def _several(self, node: ast.expr, count: int | None) -> tuple[tuple[Element, ...], tuple[ast.Assign, ...]]:
        """What `*(t.chunk(4, -1) for t in (q, k, v))` gives a `zip`. Empty if that is not plain to see.

        `for t in qkv.chunk(3, -1)` gives as many as there are names for it, which is `count`.
        """
        value, named = self._behind(node)
        if not isinstance(value, (ast.GeneratorExp, ast.ListComp)) or len(value.generators) != 1:
            return (), ()
        generator, part = value.generators[0], sliced(value.elt)
        given = [number for number in (part.pieces, part.width) if number is not None]
        own = dotted(generator.target)
        plain = part.base is not value.elt and dotted(part.base) == own and not generator.ifs
        if not plain or generator.is_async or any(own in names_read(number) for number in given):
            return (), ()
        part = replace(part, made=value.elt)
        if isinstance(generator.iter, (ast.Tuple, ast.List)):
            each = generator.iter.elts
            return (tuple(replace(part, base=base) for base in each), named) if all(map(dotted, each)) else ((), ())
        whole = sliced(generator.iter)
        if whole.base is generator.iter or dotted(whole.base) is None or part.pieces is None or count is None:
            return (), ()
        return tuple(replace(part, base=generator.iter, part=number) for number in range(count)), named

    def _behind(self, node: ast.expr) -> tuple[ast.expr, tuple[ast.Assign, ...]]:
        """What a name stands for that is made for this loop alone, with the name; else the node itself."""
        made = assignment_read(self.tree, self.function, node) if isinstance(node, ast.Name) else None
        if not isinstance(node, ast.Name) or made is None or [dotted(t) for t in made.targets] != [node.id]:
            return node, ()
        if readers(self.tree, self.function, made, node.id) != [node] or not self._stays_until_loop(made):
            return node, ()
        return made.value, (made,)

    def _stays_until_loop(self, made: ast.Assign) -> bool:
        """Whether nothing that the value is made of can change before the loop."""
        block = self.tree.block(made)
        here = self.tree.statement(self.loop) if not isinstance(self.loop, ast.stmt) else self.loop
        if here not in block:
            return False
        read = names_read(made.value)
        return all(
            isinstance(between, ast.Assign)
            and not changes(between)
            and not names_bound(between) & read
            and all(is_torch_function(self.tree.module, n.func) for n in walk(between) if isinstance(n, ast.Call))
            for between in block[block.index(made) + 1 : block.index(here)]
        )


def _names(target: ast.expr, parts: int) -> list[str]:
    """What the parts of a `zip` are called in a round. Empty if not all of them have a name."""
    if isinstance(target, ast.Name):
        return [f"{target.id}[{n}]" for n in range(parts)]
    given = target.elts if isinstance(target, ast.Tuple) else []
    return [e.id for e in given if isinstance(e, ast.Name)] if len(given) == parts else []


def _range(target: ast.expr, args: list[ast.expr]) -> Head | None:
    if not isinstance(target, ast.Name) or not 1 <= len(args) <= 3:
        return None
    step = integer(args[2]) if len(args) == 3 else 1
    if step == -1:
        # From `n - 1` down to `last`: the numbers from `last + 1` to `n`, backwards.
        last, above = integer(args[1]), one_more(args[0])
        if last is None or last < -1 or above is None:
            return None
        return Head(target.id, last + 1, above, backwards=True)
    start = 0 if len(args) == 1 else integer(args[0])
    if start is None or start < 0 or step is None or step < 1:
        return None
    return Head(target.id, start, args[0] if len(args) == 1 else args[1], step=step)


def sliced(iterable: ast.expr) -> Element:
    """The tensor and the axis that an iteration takes slices of."""
    if isinstance(iterable, ast.Call) and dotted(iterable.func) in {"list", "tuple"} and len(iterable.args) == 1:
        return sliced(iterable.args[0])
    if not isinstance(iterable, ast.Call) or not isinstance(iterable.func, ast.Attribute):
        return Element(iterable, 0)
    name = iterable.func.attr
    function = dotted(iterable.func.value) == "torch"
    base = argument(iterable, 0, "tensor" if name == "split" else "input") if function else iterable.func.value
    sizes = {"unbind": None, "split": "split_size_or_sections" if function else "split_size", "chunk": "chunks"}
    if base is None or name not in sizes:
        return Element(iterable, 0)
    at = 1 if function else 0
    given = sizes[name]
    size = None if given is None else argument(iterable, at, given)
    dim = argument(iterable, at + (given is not None), "dim")
    axis = 0 if dim is None else integer(dim)
    if axis is None:
        return Element(iterable, 0)
    if name == "unbind":
        return Element(base, axis)
    if size is None or isinstance(size, (ast.List, ast.Tuple)):
        return Element(iterable, 0)
    if name == "split":
        return Element(base, axis, kept=True) if integer(size) == 1 else Element(base, axis, width=size)
    whole = size_expression(size)
    if whole is not None and (dotted(whole[0]), whole[1]) == (dotted(base) or "", axis):
        return Element(base, axis, kept=True)
    return Element(base, axis, pieces=size)


def size_expression(node: ast.expr) -> tuple[ast.expr, int] | None:
    """`x.size(1)`, `x.shape[1]`, `len(x)`."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        axis = integer(argument(node, 0, "dim"))
        return None if axis is None else (node.func.value, axis)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
        return node.args[0], 0
    if isinstance(node, ast.Subscript):
        axis, base = integer(node.slice), shape_of(node.value)
        return None if axis is None or base is None else (base, axis)
    return None


def shape_of(node: ast.expr) -> ast.expr | None:
    """`x` for `x.shape` and `x.size()`."""
    if isinstance(node, ast.Attribute) and node.attr == "shape":
        return node.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
        return node.func.value if not node.args and not node.keywords else None
    return None
