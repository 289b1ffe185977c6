"""What is known inside a round of loops: what its names stand for, what changes from round to round, what texts say."""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from forwardlens.rules.batched import Batched, RefusedError, Value, wrapped
from forwardlens.rules.evidence import Sites
from forwardlens.rules.heads import Element
from forwardlens.rules.loops import Loop, stop_is_count
from forwardlens.rules.operations import ELEMENTWISE, VIEWS, is_torch_function, torch_name
from forwardlens.rules.windows import Lengths
from forwardlens.source.dataflow import names_bound, names_read, names_used
from forwardlens.source.rewrite import splice
from forwardlens.source.tree import dotted, is_atom, walk

_PURE_FUNCTIONS = frozenset(
    """zeros ones full empty tensor arange eye zeros_like ones_like full_like as_tensor finfo iinfo size dim numel view
    reshape unsqueeze squeeze transpose permute t unflatten item new_zeros new_ones new_full new_tensor expand
    flatten""".split()
)
PURE_BUILTINS = frozenset({"float", "int", "bool", "len", "min", "max", "abs", "range", "math"})


@dataclass
class Scope(ABC):
    """A round of loops inside each other, outermost first.

    `values` grows with the temporaries of the round, in their order, `lists` with the lists that inner loops fill.
    """

    sites: Sites
    loops: tuple[Loop, ...]
    values: dict[str, Value] = field(default_factory=dict[str, Value])
    lists: dict[str, Batched] = field(default_factory=dict[str, Batched])
    # Names that have to get their values before what is being lifted, with the texts of these.
    before: dict[str, str] = field(default_factory=dict[str, str])
    # The parameters of a helper that stand for a name or a counter of the loop's function.
    renamed: Mapping[str, str] = field(default_factory=dict[str, str])
    lengths: Lengths = field(default_factory=Lengths)
    # Names that get their values in front of all rounds, with the texts of these.
    in_front: dict[str, str] = field(default_factory=dict[str, str])
    # The scope of the loop's own function, where this is one of a helper: loops' heads are written there.
    caller: Self | None = None
    # What gives their names to lists of slices that rounds were found to take from.
    lists_read: set[ast.Assign] = field(default_factory=set[ast.Assign])
    # What fails without elements and may have none just where a loop has no rounds, which never got there.
    needs_rounds: list[str] = field(default_factory=list[str])
    # Names that a round binds; reading one before it is bound reads the previous round's value.
    bound: frozenset[str] = frozenset()
    # The places that the loop writes into, and all that may share memory with them; "" for one that is not plain.
    writes: frozenset[str] = frozenset()
    # Whether layers that do something else in training may count as they are outside of it.
    in_evaluation: bool = False

    @abstractmethod
    def lift(self, node: ast.expr) -> Value:
        """The value of `node` for all rounds. Raises `RefusedError`."""

    @property
    def depth(self) -> int:
        return len(self.loops)

    @property
    def loop(self) -> Loop:
        """The innermost loop."""
        return self.loops[-1]

    @property
    def home(self) -> Self:
        """The scope of the function that the loops are in."""
        return self.caller or self

    @property
    def variables(self) -> frozenset[str]:
        return frozenset(name for loop in self.loops for name in loop.variables)

    @property
    def counters(self) -> dict[str, int]:
        """The loops' counters, with the number of their loop."""
        return {loop.index: depth for depth, loop in enumerate(self.loops) if loop.index is not None}

    def deeper(self, loop: Loop) -> Self:
        """The scope of the rounds of a loop inside these."""
        values = {n: _one_loop_more(v) if isinstance(v, Batched) else v for n, v in self.values.items()}
        inner = frozenset(name for statement in loop.body for name in names_bound(statement))
        bound = self.bound | inner - loop.variables
        return replace(self, loops=(*self.loops, loop), values=values, lists={}, bound=bound)

    def own_name(self, name: str) -> str:
        """What the loop's function calls `name`."""
        return self.renamed.get(name, name)

    def varies(self, node: ast.AST) -> bool:
        """Whether `node` may have another value in each round."""
        return any(self.own_name(name) in self.variables or name in self.bound for name in names_read(node))

    def require_pure(self, node: ast.AST) -> None:
        """Refuse calls that might give another value, or do something, each time."""
        for call in (n for n in walk(node) if isinstance(n, (ast.Call, ast.NamedExpr, ast.Await, ast.Yield))):
            name = dotted(call.func) if isinstance(call, ast.Call) else None
            leaf = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else name
            known = leaf in ELEMENTWISE | VIEWS or leaf in _PURE_FUNCTIONS or leaf in PURE_BUILTINS
            if not known and not (name or "").startswith("math."):
                raise RefusedError(f"`{self.text(call)}` may be different in every round")

    def stop_of(self, loop: Loop) -> str:
        """The text of the number that a loop counts to. Raises `RefusedError` if it is not plain."""
        if loop.stop is None or not stop_is_count(loop.stop) or self.home.varies(loop.stop):
            raise RefusedError("the number of rounds is not written in the source")
        return self.home.text(loop.stop)

    def may_write_to(self, value: Batched) -> bool:
        """Whether the loop may write to memory that a value shows."""
        return value.view and any(re.search(rf"\b{re.escape(place)}\b", value.text) for place in self.writes)

    def meet(self, values: Iterable[Value]) -> None:
        """Note that values are operands of one operator."""
        self.lengths.meet([key_of(loop) for loop in self.loops], [v for v in values if isinstance(v, Batched)])

    def picked(self, item: ast.expr) -> tuple[int, str] | None:
        """The loop of a counter that goes through pairs, and the counter's name."""
        name = self.own_name(item.id) if isinstance(item, ast.Name) and item.id not in self.values else None
        for depth, loop in enumerate(self.loops):
            if name is not None and loop.pairs is not None and loop.pairs.of is None and name in loop.pairs.names:
                return depth, name
        return None

    def count_of_pairs(self, depth: int) -> str:
        """The text of how many things a loop goes through in pairs. Raises `RefusedError` if that changes inside it."""
        pairs = self.loops[depth].pairs
        if pairs is None or self.home.varies(pairs.count):
            raise RefusedError("the number of rounds changes inside the loop")
        return self.home.text(pairs.count)

    def numbers_of_pairs(self, depth: int, name: str, count: str, base: str) -> str:
        """The text of the numbers that a name has in all rounds, made on the device of `base`."""
        loop = self.loops[depth]
        assert loop.pairs is not None
        made = f"{self.torch}.{loop.pairs.function}({count}, {count}, {loop.pairs.offset}, device={base}.device)"
        return f"{self.name_in_front(made, 'pairs')}[{loop.pairs.names.index(name)}]"

    def only(self, depth: int, dim: int) -> tuple[int | None, ...]:
        """The loops' dimensions of a value that changes in one loop alone."""
        return tuple(dim if k == depth else None for k in range(self.depth))

    def name_before(self, text: str, wanted: str) -> str:
        """The name of a line in front of the rounds that computes `text`, `wanted` if nothing else has it."""
        return self._named(self.before, text, wanted)

    def name_in_front(self, text: str, wanted: str) -> str:
        """The same for a text that nothing of the rounds is in, which gets its line in front of all of theirs."""
        return self._named(self.in_front, text, wanted)

    def _named(self, lines: dict[str, str], text: str, wanted: str) -> str:
        known = next((name for name, other in lines.items() if other == text), None)
        loop = self.loops[0]
        used = {*self.before, *self.in_front, *names_used(loop.function)}
        name = known or self.sites.fresh_name(loop.function, loop.node, wanted, used)
        lines[name] = text
        self.lengths.name(name, text)
        return name

    def lines_in_front(self) -> list[str]:
        """The lines of `in_front`."""
        return [f"{name} = {text}" for name, text in self.in_front.items()]

    def lines_before(self, *texts: str) -> list[str]:
        """The lines of `before` whose names `texts` read, also through each other."""
        kept: list[str] = []
        read = list(texts)
        for name, text in reversed(self.before.items()):
            if any(re.search(rf"\b{re.escape(name)}\b", other) for other in read):
                kept.insert(0, f"{name} = {text}")
                read.append(text)
        return kept

    # -- the file's own words

    @property
    def torch(self) -> str:
        """The name of the module `torch` in this file."""
        name = torch_name(self.sites.tree.module)
        if name is None:
            raise RefusedError("the file does not import torch by a name")
        return name

    def is_library(self, func: ast.expr) -> bool:
        return is_torch_function(self.sites.tree.module, func)

    def text(self, node: ast.AST | None) -> str:
        """The text of a node as the loop's function would write it."""
        if not isinstance(node, (ast.expr, ast.stmt)) or not hasattr(node, "lineno"):
            return ":"
        reads = self._renamed_in(node)
        if reads:
            return splice(self.sites.source, node, {n: self.renamed[n.id] for n in reads})
        return self.sites.tree.text(node)

    def in_caller(self, node: ast.expr) -> ast.expr:
        """An expression of a helper as the loop's function would write it. It has no place in the file."""
        if not names_read(node) & self.renamed.keys():
            return node
        return ast.parse(self.text(node), mode="eval").body

    def spliced(self, node: ast.expr, parts: Mapping[ast.expr, str]) -> str:
        """The text of a node with some of the nodes inside it in other words."""
        covered = {id(below) for part in parts for below in walk(part)} if self.renamed else set[int]()
        names: dict[ast.expr, str] = {n: self.renamed[n.id] for n in self._renamed_in(node) if id(n) not in covered}
        return splice(self.sites.source, node, {**names, **parts})

    def _renamed_in(self, node: ast.AST) -> list[ast.Name]:
        return [n for n in walk(node) if isinstance(n, ast.Name) and n.id in self.renamed] if self.renamed else []


def key_of(loop: Loop) -> str:
    """What tells a loop from the others of its function."""
    return f"{loop.node.lineno}.{loop.node.col_offset}.{next(iter(sorted(loop.variables)), '')}"


def length_text(scope: Scope, base: ast.expr, axis: int) -> str:
    """How long a tensor is along an axis."""
    text = scope.text(base)
    return f"{wrapped(text, is_atom(base))}.size({axis})" if axis else f"len({text})"


def count_text(scope: Scope, element: Element) -> str:
    """How many slices an element takes."""
    return length_text(scope, element.base, element.axis) if element.pieces is None else scope.text(element.pieces)


def _one_loop_more(value: Batched) -> Batched:
    return replace(value, loops=(*value.loops, None))
