"""Who reads a value, and whether any of them cares how it is laid out in memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from forwardlens.rules.callers import arguments_of, called_function
from forwardlens.rules.constants import numbers_of_object
from forwardlens.rules.effects import changes
from forwardlens.rules.evidence import Sites
from forwardlens.rules.operations import (
    ELEMENTWISE,
    ELEMENTWISE_MODULES,
    FRESH_FUNCTIONS,
    FRESH_OPERATORS,
    INDEXED,
    JOINS,
    LOSSES,
    MATRIX_PRODUCTS,
    MAY_BE_SAME,
    MODULES_BLIND_TO_LAYOUT,
    NORMALISING,
    REDUCTIONS,
    VIEW_ATTRIBUTES,
    VIEWS,
    call_operands,
    called_name,
    is_torch_function,
)
from forwardlens.source.dataflow import METADATA, aliases_of_all, is_inplace, overlap
from forwardlens.source.tree import Function, dotted, walk

# They take any layout, and may hand it on.
_CONVOLUTIONS = frozenset({"aten::conv1d", "aten::conv2d", "aten::conv3d"})
# Methods of lists and the like that keep what they are given.
_KEEPING = frozenset({"append", "appendleft", "extend", "insert", "setdefault"})
# How a followed value relates to the one it started from: the same memory, computed from it element by element, or
# reduced. What was reduced may leave the function: its layout is nobody's concern.
Kind = Literal["same", "computed", "reduced"]


def _computed(kind: Kind) -> Kind:
    return "reduced" if kind == "reduced" else "computed"


class LayoutMattersError(Exception):
    """Some reader needs the value as it is laid out now. The message says which."""


@dataclass
class LayoutReaders:
    """Follows a value through everything that carries its layout on, and raises at the first reader that cares.

    Elementwise results keep the layout of their inputs, so their readers count as well. `names` are those that
    share the value's memory, `functions` those that it passes through, `entered` those of them that it was given to,
    `readers` how many operators read it.

    With `only_same` what is computed from the value is not followed: its own layout stays what it was. With
    `any_layout` readers that depend on the layout are fine as long as they only read.
    """

    sites: Sites
    only_same: bool = False
    any_layout: bool = False
    seen: set[tuple[int, Kind]] = field(default_factory=set[tuple[int, Kind]])
    names: set[tuple[Function, str]] = field(default_factory=set[tuple[Function, str]])
    functions: set[Function] = field(default_factory=set[Function])
    entered: dict[Function, ast.Call] = field(default_factory=dict[Function, ast.Call])
    readers: int = 0

    def follow(self, node: ast.expr, kind: Kind = "same") -> None:
        """Check the readers of the value of `node`. Raises `LayoutMattersError`."""
        if (id(node), kind) in self.seen or (self.only_same and kind != "same"):
            return
        self.seen.add((id(node), kind))
        function = self.sites.tree.function(node)
        if function is None:
            raise LayoutMattersError("it is read outside of a function")
        self.functions.add(function)
        parent = self.sites.tree.parent(node)
        if isinstance(parent, ast.Attribute):
            self._attribute(parent, kind)
        elif isinstance(parent, ast.Call):
            self._argument(parent, kind, node)
        elif isinstance(parent, ast.keyword):
            call = self.sites.tree.parent(parent)
            if not isinstance(call, ast.Call):
                raise LayoutMattersError("it is a keyword of a class")
            self._argument(call, kind)
        elif isinstance(parent, ast.BinOp):
            self.readers += 1
            if not isinstance(parent.op, ast.MatMult) and not self._first_lays_out(parent, node):
                self.follow(parent, _computed(kind))
        elif isinstance(parent, (ast.UnaryOp, ast.Compare)):
            self.readers += 1
            self.follow(parent, _computed(kind))
        elif isinstance(parent, ast.IfExp):
            self.follow(parent, kind)
        elif isinstance(parent, ast.Subscript):
            self._subscript(parent, node, kind)
        elif isinstance(parent, ast.Tuple) and isinstance(self.sites.tree.parent(parent), ast.Subscript):
            self.readers += 1
        elif isinstance(parent, (ast.Tuple, ast.List)) or (isinstance(parent, ast.ListComp) and parent.elt is node):
            self._collection(parent, node, kind)
        else:
            self._statement(parent, node, kind)

    def _subscript(self, parent: ast.Subscript, node: ast.expr, kind: Kind) -> None:
        if parent.value is not node:
            self.readers += 1
        elif isinstance(parent.ctx, ast.Load):
            self.follow(parent, kind)
        elif kind == "same":
            raise LayoutMattersError(f"`{self._text(parent)}` writes into it")

    def _attribute(self, attribute: ast.Attribute, kind: Kind) -> None:
        name = attribute.attr
        call = self.sites.tree.parent(attribute)
        called = isinstance(call, ast.Call) and call.func is attribute
        if name in METADATA:
            return
        if not called and name in VIEW_ATTRIBUTES:
            self.follow(attribute, kind)
        elif called and isinstance(call, ast.Call):
            self._known(name, call, kind)
        else:
            raise LayoutMattersError(f"`.{name}` may depend on the layout")

    def _known(self, name: str, call: ast.Call, kind: Kind) -> None:
        """A method or function of PyTorch that reads the value."""
        if any(k.arg in {"out", "inplace"} for k in call.keywords):
            raise LayoutMattersError(f"`{name}` writes into it")
        if is_inplace(name) and kind != "same":
            self.follow(call, kind)
        elif is_inplace(name):
            raise LayoutMattersError(f"`{name}` writes into it")
        elif name in MATRIX_PRODUCTS:
            self.readers += 1
        elif name in REDUCTIONS:
            self.readers += 1
            self.follow(call, "reduced")
        elif name == "contiguous" and kind != "same":
            # Whatever comes after it sees the same layout with the copy and without.
            self.readers += 1
        elif name in ELEMENTWISE or name in NORMALISING:
            # `to` and `contiguous` may hand back what they were given.
            self.readers += 1
            self.follow(call, kind if name in MAY_BE_SAME else _computed(kind))
        elif name in INDEXED or name in LOSSES or name in JOINS:
            self.readers += 1
            self.follow(call, _computed(kind))
        elif name in VIEWS or (name in {"reshape", "flatten", "view", "contiguous"} and self.any_layout):
            self.follow(call, kind)
        elif name in {"reshape", "flatten", "view"}:
            raise LayoutMattersError(f"the next `{name}` needs the same copy")
        elif name in {"tolist", "item"} or (self.any_layout and name in FRESH_FUNCTIONS):
            self.readers += 1
        else:
            raise LayoutMattersError(f"`{name}` may depend on the layout")

    def _first_lays_out(self, reader: ast.BinOp | ast.Call, node: ast.expr) -> bool:
        """Whether another tensor decides how the result of an elementwise operator is laid out: the first one does.

        Only where it is not broadcast, which one of size 1 may be for other inputs.
        """
        module = self.sites.tree.module
        if isinstance(reader, ast.BinOp):
            operands, shapes = [reader.left, reader.right], self.sites.operands(reader) or ()
        else:
            operands, name = call_operands(module, reader), called_name(module, reader)
            op = self.sites.op(reader, f"aten::{name}") if name in ELEMENTWISE - MAY_BE_SAME else None
            shapes = op.shapes if op is not None else ()
        # What has no dimensions is a number to the others.
        tensors = [shape for shape in shapes if shape]
        alike = len(tensors) > 1 and tensors[:1] == [*shapes[:1]] and len({*tensors}) == 1
        return operands[:1] != [node] and alike and min(tensors[0]) > 1

    def _argument(self, call: ast.Call, kind: Kind, node: ast.expr | None = None) -> None:
        func = call.func
        torch_function = isinstance(func, ast.Attribute) and is_torch_function(self.sites.tree.module, func)
        method = isinstance(func, ast.Attribute) and not (dotted(func.value) or "self").startswith("self")
        if method and isinstance(func, ast.Attribute) and func.attr in _KEEPING:
            raise LayoutMattersError("it goes into a collection")
        if self.any_layout and node is not None and (method or (torch_function and node is not call.args[0])):
            # The result of a method shares memory with its receiver at most, that of a function with what comes first.
            self.readers += 1
            return
        if isinstance(func, ast.Name) and func.id in {"len", "print", "isinstance"}:
            return
        if node is not None and self._first_lays_out(call, node):
            self.readers += 1
            return
        if isinstance(func, ast.Attribute) and is_torch_function(self.sites.tree.module, func):
            self._known(func.attr, call, kind)
            return
        tensor_method = isinstance(func, ast.Attribute) and not (dotted(func.value) or "").startswith("self")
        if tensor_method and isinstance(func, ast.Attribute) and func.attr in ELEMENTWISE | MATRIX_PRODUCTS:
            self._known(func.attr, call, kind)
            return
        if isinstance(func, ast.Attribute) and tensor_method and func.attr in INDEXED:
            # The receiver is what may be written to; index and source are only read.
            self.readers += 1
            return
        inside = called_function(self.sites, call)
        if inside is not None and node is not None and self._enter(call, inside, node, kind):
            return
        ran = self.sites.outermost(call)
        if ran and (ran <= MODULES_BLIND_TO_LAYOUT or (self.any_layout and ran <= FRESH_OPERATORS)):
            self.readers += 1
        elif ran and (ran <= ELEMENTWISE_MODULES or ran <= _CONVOLUTIONS):
            self.readers += 1
            self.follow(call, _computed(kind))
        else:
            raise LayoutMattersError(f"`{self._text(func)}` may depend on the layout")

    def _enter(self, call: ast.Call, function: Function, node: ast.expr, kind: Kind) -> bool:
        """Follow an argument into a function or a module of the file, and what that gives. Whether it could be."""
        given = arguments_of(function, call)
        name = next((name for name, argument in (given or {}).items() if argument is node), None)
        if name is None or function.decorator_list or isinstance(function, ast.AsyncFunctionDef):
            return False
        if self.entered.get(function, call) is not call:
            # What it gives is known for the first call only: it may lie in memory as what it was given.
            self.follow(call, kind)
        self.entered.setdefault(function, call)
        if kind == "same":
            self.names.add((function, name))
        for read in _reads(function.body, name):
            if isinstance(read.ctx, ast.Store) and kind == "same":
                raise LayoutMattersError(f"`{name}` is changed in place")
            if isinstance(read.ctx, ast.Load):
                self.follow(read, kind)
        return True

    def _collection(self, collection: ast.Tuple | ast.List | ast.ListComp, node: ast.expr, kind: Kind) -> None:
        parent = self.sites.tree.parent(collection)
        if isinstance(parent, ast.Assign) and not isinstance(collection, ast.ListComp):
            position = collection.elts.index(node)
            for target in parent.targets:
                if not isinstance(target, (ast.Tuple, ast.List)) or len(target.elts) != len(collection.elts):
                    raise LayoutMattersError("it goes into a collection")
                self._bound(target.elts[position], parent, kind)
        elif isinstance(parent, ast.Call) and isinstance(parent.func, ast.Attribute) and parent.func.attr in JOINS:
            self.readers += 1
            self.follow(parent, _computed(kind))
        elif isinstance(parent, ast.Return) and kind == "reduced":
            return
        elif isinstance(parent, ast.Return) and isinstance(collection, ast.Tuple):
            self._returned_among(parent, collection, collection.elts.index(node))
        else:
            raise LayoutMattersError("it goes into a collection")

    def _statement(self, parent: ast.AST | None, node: ast.expr, kind: Kind) -> None:
        if isinstance(parent, ast.Assign):
            for target in parent.targets:
                self._bound(target, parent, kind)
        elif isinstance(parent, ast.AnnAssign):
            self._bound(parent.target, parent, kind)
        elif isinstance(parent, ast.Return):
            self._returned(parent, kind)
        elif isinstance(parent, ast.For) and parent.iter is node:
            self._bound(parent.target, parent, kind)
        elif isinstance(parent, ast.AugAssign) and parent.value is node:
            self.readers += 1
        elif not isinstance(parent, (ast.Expr, ast.Assert)):
            raise LayoutMattersError("it is read in a way that is not followed")

    def _bound(self, target: ast.expr, statement: ast.stmt, kind: Kind) -> None:
        """Every read that may see the value that `statement` binds to `target`."""
        if isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._bound(element, statement, kind)
            return
        if not isinstance(target, ast.Name):
            raise LayoutMattersError("it is stored beyond this function")
        function = self.sites.tree.function(statement)
        if kind == "same" and function is not None:
            self.names.add((function, target.id))
        for read in reads_of(self.sites, statement, target.id):
            if isinstance(read.ctx, ast.Store):
                if kind != "same":
                    continue
                raise LayoutMattersError(f"`{target.id}` is changed in place")
            self.follow(read, kind)

    def _returned(self, statement: ast.Return, kind: Kind) -> None:
        """A helper's result is read where the helper is called, if all those places are known."""
        function = self.sites.tree.function(statement)
        led_here = self.entered.get(function) if function is not None else None
        if led_here is not None:
            self.follow(led_here, kind)
        elif kind != "reduced":
            for call in self._calls_behind(statement):
                self.follow(call)

    def _returned_among(self, statement: ast.Return, results: ast.Tuple, position: int) -> None:
        """One of a helper's results is read by the name that it is unpacked to."""
        for call in self._calls_behind(statement):
            unpacked = self.sites.tree.parent(call)
            targets = unpacked.targets if isinstance(unpacked, ast.Assign) else []
            names = targets[0] if len(targets) == 1 and isinstance(targets[0], (ast.Tuple, ast.List)) else None
            starred = names is not None and any(isinstance(e, ast.Starred) for e in names.elts)
            if not isinstance(unpacked, ast.Assign) or names is None or starred or len(names.elts) != len(results.elts):
                raise LayoutMattersError("it goes into a collection")
            self._bound(names.elts[position], unpacked, "same")

    def _calls_behind(self, statement: ast.Return) -> Sequence[ast.Call]:
        """The calls that a result of a helper goes to. Raises if they are not known."""
        function = self.sites.tree.function(statement)
        if function is None or function.decorator_list or function.name == "forward" or function.name.startswith("__"):
            raise LayoutMattersError("it is returned")
        calls = list(calls_of(self.sites, function))
        if not calls:
            raise LayoutMattersError("it is returned")
        return calls

    def _text(self, node: ast.expr) -> str:
        return self.sites.tree.text(node)


def reads_of(sites: Sites, statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """The reads of `name` that may see what `statement` bound it to; a few more where branches and loops are."""
    tree = sites.tree
    inner: ast.stmt = statement
    if isinstance(statement, (ast.For, ast.AsyncFor)):
        yield from _reads(statement.body, name)
    while True:
        block = tree.block(inner)
        for later in block[block.index(inner) + 1 :]:
            yield from _reads([later], name)
            if isinstance(later, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in later.targets):
                return
        parent = tree.parent(inner)
        if isinstance(parent, (ast.For, ast.AsyncFor, ast.While)):
            yield from _reads([parent], name)
        if not isinstance(parent, ast.stmt) or isinstance(parent, Function | ast.ClassDef):
            break
        inner = parent


def _reads(statements: list[ast.stmt], name: str) -> Iterator[ast.Name]:
    for statement in statements:
        for node in walk(statement):
            if isinstance(node, ast.Name) and node.id == name:
                augmented = isinstance(statement, ast.AugAssign) and statement.target is node
                if isinstance(node.ctx, ast.Load) or augmented:
                    yield node


def calls_of(sites: Sites, function: Function) -> Iterator[ast.Call]:
    """The calls of a helper in its file. Raises if it is used in any other way."""
    tree = sites.tree
    method = tree.owner(function) is not None
    for node in walk(tree.module):
        if isinstance(node, ast.Attribute) and node.attr == function.name:
            if not method or dotted(node.value) != "self":
                if _may_be_ours(node, method):
                    raise LayoutMattersError(f"`{function.name}` is used in other places")
                continue
        elif not (isinstance(node, ast.Name) and node.id == function.name and not method):
            continue
        call = tree.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            raise LayoutMattersError(f"`{function.name}` is passed around")
        yield call


def _may_be_ours(node: ast.Attribute, method: bool) -> bool:
    """`super().split(x)` is ours, `x.split(2)` on a tensor is not."""
    return method and isinstance(node.value, ast.Call) and dotted(node.value.func) == "super"


def require_no_writes(readers: LayoutReaders, copied: ast.expr) -> None:
    """Refuse if the copy, or what it was copied from, is written to: without the copy they are one memory."""
    for function in readers.functions:
        shared = aliases_of_all(function, _places_in(readers, function, copied))
        shared -= numbers_of_object(readers.sites.tree, function)
        for node, place in changes(readers.sites, function):
            if isinstance(node, ast.Attribute) or place is None:
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
                continue
            if any(overlap(place, s) for s in shared if s != "self"):
                raise LayoutMattersError(f"`{place}` is written to")


def only_read(sites: Sites, node: ast.expr) -> bool:
    """Whether every reader of a value is known and none writes to it or keeps it: others may get the same memory."""
    readers = LayoutReaders(sites, only_same=True, any_layout=True)
    try:
        readers.follow(node)
        require_no_writes(readers, node)
    except LayoutMattersError:
        return False
    return True


def _places_in(readers: LayoutReaders, function: Function, copied: ast.expr) -> Iterator[str]:
    """The names that hold the value, or what it was copied from, in one function."""
    yield from (name for owner, name in readers.names if owner is function)
    if any(copied is below for below in walk(function)):
        for node in walk(copied):
            if isinstance(node, ast.Name) and node.id not in {"self", "torch", "F"}:
                yield node.id
