"""What code changes in place, with what the functions that it calls change.

`source/dataflow.py` sees what stands in the code itself. Here a call counts too: of a function of the program by what
that one changes, and of a library by the operators in place that the run saw.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from forwardlens.rules.contract import Context
from forwardlens.rules.evidence import Sites, sites_of
from forwardlens.rules.operations import FORWARDS, is_torch_function
from forwardlens.source import dataflow
from forwardlens.source.dataflow import METADATA, aliases_of_all, bindings, is_inplace, may_alias, names_bound
from forwardlens.source.text import SourceText
from forwardlens.source.tree import Function, Tree, dotted, tree_of, walk

Change = tuple[ast.AST, str | None]
_Callable = Function | ast.Lambda
_Found = tuple[Tree, _Callable]
# A function, and a call in it.
_Called = tuple[_Callable, ast.Call]
# A place with more parts than this counts as what holds it. Functions that call themselves would name ever deeper ones.
_DEPTH = 2
_TRAINING = frozenset({"step", "backward", "load_state_dict"})
# These write only to the memory that they make.
_MAKING = frozenset({"tensor", "as_tensor", "zeros", "ones", "full", "new_tensor", "new_zeros", "new_ones", "new_full"})
# The position of what is given by keyword only.
_NOWHERE = 1_000_000


def changes(sites: Sites, node: ast.AST) -> tuple[Change, ...]:
    """Every (node, place) where `node`, or what it calls, changes an object in place; None if it is unclear which."""
    effects = sites.context.once(_effects)
    return dataflow.changes(node) if effects is None else effects.of(node)


def may_train(sites: Sites, node: ast.AST) -> bool:
    """Whether `node` may give weights other values: by an optimizer's `step`, unless the file has one of its own."""
    own = {function.name: function for function in sites.tree.functions() if function.name in _TRAINING}
    asked = {dotted(n) or "" for f in (node, *own.values()) for n in walk(f) if isinstance(n, ast.Attribute)}
    return any(p.split(".")[-1] in _TRAINING and p.removeprefix("self.") not in own for p in asked)


@dataclass
class _Effects:
    """What the code of one file changes, remembered by node, and by function what those that call it see of it."""

    sites: Sites
    program: _Program
    by_node: dict[ast.AST, tuple[Change, ...]] = field(default_factory=dict[ast.AST, tuple[Change, ...]])
    by_function: dict[_Callable, frozenset[str]] = field(default_factory=dict[_Callable, frozenset[str]])
    callees: dict[ast.Call, Sequence[_Found]] = field(default_factory=dict[ast.Call, Sequence[_Found]])
    # What the forwards of the program change, of what they are given and of what lies outside: where nothing tells
    # which one runs, it may be any.
    by_any_forward: set[_Parameter | str] = field(default_factory=set["_Parameter | str"])

    def of(self, node: ast.AST) -> tuple[Change, ...]:
        if node not in self.by_node:
            self._settle(self.sites.tree, node)
            called = (c for call in _calls(node) for c in self._by_call(self.sites.tree, call))
            self.by_node[node] = (*dataflow.changes(node), *called)
        return self.by_node[node]

    def _settle(self, tree: Tree, node: ast.AST) -> None:
        """Learn what every function changes that `node` may reach: each place is handed on to its callers once."""
        found = self._reached(tree, node)
        called_at = self._called_at(found)
        handed = {
            function: {p for call in _calls(function) for _, p in self._by_call(owner, call) if p is not None}
            for function, owner in found.items()
        }
        news: dict[_Callable | None, set[_Parameter | str]] = {}
        for function in found:
            self._learn(function, _own(function) | _seen_outside(function, handed[function]), news)
        while news:
            callee = next(iter(news))
            places = news.pop(callee)
            for caller, call in called_at[callee]:
                more = {p for place in places for p in _where_called(call, callee, place)} - handed[caller]
                handed[caller] |= more
                self._learn(caller, _seen_outside(caller, more), news)

    def _reached(self, tree: Tree, node: ast.AST) -> dict[_Callable, Tree]:
        """The functions that `node` may run and that nothing is known of yet, with the files that they stand in."""
        found: dict[_Callable, Tree] = {}
        todo = [(tree, call) for call in _calls(node)]
        while todo:
            for owner, function in self._callees(*todo.pop()):
                if function not in self.by_function and function not in found:
                    found[function] = owner
                    todo += [(owner, call) for call in _calls(function)]
        return found

    def _called_at(self, found: Mapping[_Callable, Tree]) -> Mapping[_Callable | None, Sequence[_Called]]:
        """Where the functions `found` call each function; under None, where they call any forward."""
        called: dict[_Callable | None, list[_Called]] = defaultdict(list)
        for caller, owner in found.items():
            for call in _calls(caller):
                callees = self._callees(owner, call)
                names = [None] if callees is self.program.forwards else [callee for _, callee in callees]
                for callee in names:
                    called[callee].append((caller, call))
        return called

    def _learn(
        self, function: _Callable, places: frozenset[str], news: dict[_Callable | None, set[_Parameter | str]]
    ) -> None:
        """Note what a function changes, and as news what was not known of it or of forwards before."""
        before = self.by_function.get(function, frozenset())
        self.by_function[function] = before | places
        if places - before:
            news.setdefault(function, set()).update(places - before)
        if getattr(function, "name", None) in FORWARDS:
            changed = {_parameter(function, place.partition(".")[0]) or place for place in places}
            if changed - self.by_any_forward:
                news.setdefault(None, set()).update(changed - self.by_any_forward)
                self.by_any_forward |= changed

    def _callees(self, tree: Tree, call: ast.Call) -> Sequence[_Found]:
        """The functions of the program that a call may run."""
        if call not in self.callees:
            self.callees[call] = self._functions_behind(tree, call)
        return self.callees[call]

    def _functions_behind(self, tree: Tree, call: ast.Call) -> Sequence[_Found]:
        func = call.func
        if isinstance(func, ast.Attribute):
            if is_torch_function(tree.module, func) or func.attr in METADATA:
                return ()
            named = self._of_class(tree, call, self.program.named.get(func.attr, ()))
            return named or (self._modules(tree, call) if (dotted(func) or "").startswith("self.") else ())
        if not isinstance(func, ast.Name):
            return self._modules(tree, call)
        named, caller = self.program.named.get(func.id, ()), tree.function(call)
        if caller is None or not bindings(caller, func.id):
            return named
        return [found for found in named if isinstance(found[1], ast.Lambda)] or self._modules(tree, call)

    def _of_class(self, tree: Tree, call: ast.Call, named: Sequence[_Found]) -> Sequence[_Found]:
        """Those of the methods `named` that `self` may have, where that is what a call is of. All if none is known."""
        caller = tree.function(call)
        owner = tree.owner(caller) if caller is not None else None
        own = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self"
        if owner is None or not own:
            return named
        kin = [(t, f) for t, f in named if (other := t.owner(f)) is not None and self.program.related(owner, other)]
        return kin or named

    def _modules(self, tree: Tree, call: ast.Call) -> Sequence[_Found]:
        """The forwards of the program, where a call runs an object that nothing tells the class of.

        A module of a library ran its operators at the call itself.
        """
        if tree is self.sites.tree and self.sites.outermost(call):
            return ()
        return self.program.forwards

    def _by_call(self, tree: Tree, call: ast.Call) -> Iterator[Change]:
        callees = self._callees(tree, call)
        if callees is self.program.forwards:
            yield from ((call, p) for changed in self.by_any_forward for p in _where_called(call, None, changed))
            return
        for _, function in callees:
            for place in self.by_function.get(function, ()):
                yield from ((call, p) for p in _where_called(call, function, place))
        if not callees and tree is self.sites.tree and self._ran_in_place(call):
            given = [*call.args, *(k.value for k in call.keywords)]
            receiver = call.func.value if isinstance(call.func, ast.Attribute) else None
            yield from ((call, p) for arg in given for p in may_alias(arg))
            yield from ((call, p) for p in (may_alias(receiver) if receiver is not None else ()) if p != "self")

    def _ran_in_place(self, call: ast.Call) -> bool:
        """Whether a call of a library changed a tensor, as `self.relu(x)` may. A count of batches has no dimension."""
        if isinstance(call.func, ast.Attribute) and (is_inplace(call.func.attr) or call.func.attr in _MAKING):
            return False
        cost = self.sites.cost(call)
        ops = [op for op in cost.ops if op.outermost] if cost is not None else []
        return any(is_inplace(op.name) and any(op.shapes[:1]) for op in ops)


def _effects(context: Context) -> _Effects | None:
    sites = sites_of(context)
    return None if sites is None else _Effects(sites, _program(tuple(context.sources.values())))


@dataclass(frozen=True)
class _Program:
    """The functions of all files that were read, by every name that they are called by."""

    named: Mapping[str, Sequence[_Found]]
    bases: Mapping[str, frozenset[str]]
    forwards: Sequence[_Found]

    def related(self, one: ast.ClassDef, other: ast.ClassDef) -> bool:
        """Whether an object of one class may be one of the other, by the names of their bases."""
        return one is other or one.name in self._above(other.name) or other.name in self._above(one.name)

    def _above(self, name: str) -> set[str]:
        found, todo = set[str](), [name]
        while todo:
            above = self.bases.get(todo.pop(), frozenset()) - found
            found |= above
            todo += above
        return found


@lru_cache(maxsize=4)
def _program(sources: tuple[SourceText, ...]) -> _Program:
    named: dict[str, list[_Found]] = defaultdict(list)
    trees = [tree for source in sources if (tree := tree_of(source)) is not None]
    for tree in trees:
        for function in tree.functions():
            named[function.name].append((tree, function))
        for name, function in _lambdas(tree):
            named[name].append((tree, function))
    for new, old in {pair for tree in trees for pair in _renamed(tree) if pair[0] != pair[1]}:
        named[new] += [found for found in named.get(old, ()) if found not in named[new]]
    bases: dict[str, set[str]] = defaultdict(set)
    for node in (n for tree in trees for n in walk(tree.module) if isinstance(n, ast.ClassDef)):
        bases[node.name] |= {(dotted(base) or "").split(".")[-1] for base in node.bases}
    forwards = [found for name in FORWARDS for found in named.get(name, ())]
    return _Program(named, {name: frozenset(above) for name, above in bases.items()}, forwards)


@lru_cache(maxsize=64)
def _renamed(tree: Tree) -> tuple[tuple[str, str], ...]:
    """`gather = staticmethod(collect)`, `import retire as end`: a second name, and the one that it stands for."""
    found: list[tuple[str, str]] = []
    for node in walk(tree.module):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            found += [(alias.asname, alias.name) for alias in node.names if alias.asname]
        elif isinstance(node, ast.Assign):
            value = node.value.args[0] if isinstance(node.value, ast.Call) and node.value.args else node.value
            old = dotted(value)
            names = [(dotted(target) or "").split(".")[-1] for target in node.targets]
            found += [(name, old.split(".")[-1]) for name in names if name and old is not None]
    return tuple(found)


@lru_cache(maxsize=64)
def _lambdas(tree: Tree) -> tuple[tuple[str, ast.Lambda], ...]:
    """The functions of `flip = lambda x: ...`, with their names."""
    assigned = [n for n in walk(tree.module) if isinstance(n, ast.Assign)]
    return tuple(
        ((dotted(target) or "").split(".")[-1], node.value)
        for node in assigned
        for target in node.targets
        if isinstance(node.value, ast.Lambda)
    )


@lru_cache(maxsize=4096)
def _calls(node: ast.AST) -> tuple[ast.Call, ...]:
    return tuple(n for n in walk(node) if isinstance(n, ast.Call))


def _parameters(function: _Callable) -> list[str]:
    spec = function.args
    every = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
    return [a.arg for a in every if a is not None]


def _own(function: _Callable) -> frozenset[str]:
    """What a function's own code changes, of what the code that calls it can see."""
    changed = {p for n, place in dataflow.changes(function) for p in ([place] if place is not None else _behind(n))}
    return _seen_outside(function, changed)


def _behind(change: ast.AST) -> set[str]:
    """What the object may share memory with that is changed where no name says which it is."""
    if isinstance(change, ast.AugAssign):
        return may_alias(change.target)
    if isinstance(change, (ast.Subscript, ast.Attribute)):
        return may_alias(change.value)
    return (
        may_alias(change.func.value)
        if isinstance(change, ast.Call) and isinstance(change.func, ast.Attribute)
        else set()
    )


def _seen_outside(function: _Callable, changed: set[str]) -> frozenset[str]:
    """The places among `changed`, and what shares memory with them, that are not the function's own names."""
    parameters = _parameters(function)
    places = aliases_of_all(function, changed) - {"self"}
    outside = {p for p in places if p.split(".")[0] in parameters or p.split(".")[0] not in names_bound(function)}
    return frozenset(".".join(place.split(".")[:_DEPTH]) for place in outside)


@dataclass(frozen=True)
class _Parameter:
    """How a call gives a parameter its value: by what it is called on, by position, by name, or among others."""

    kind: Literal["receiver", "plain", "several", "keywords"]
    name: str
    position: int = 0
    is_forward: bool = False


@lru_cache(maxsize=4096)
def _parameter(function: _Callable, name: str) -> _Parameter | None:
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    bound = bool(names) and names[0] in {"self", "cls"}
    if bound and name == names[0]:
        return _Parameter("receiver", "", is_forward=getattr(function, "name", None) in FORWARDS)
    names = names[1:] if bound else names
    if spec.kwarg is not None and name == spec.kwarg.arg:
        return _Parameter("keywords", "")
    if spec.vararg is not None and name == spec.vararg.arg:
        return _Parameter("several", "", len(names))
    if name in names:
        return _Parameter("plain", name, names.index(name))
    return _Parameter("plain", name, _NOWHERE) if name in {a.arg for a in spec.kwonlyargs} else None


def _where_called(call: ast.Call, function: _Callable | None, changed: _Parameter | str) -> Iterator[str]:
    """What is changed at a call, where the function that it runs changes a place, or a forward all of a parameter."""
    if isinstance(changed, _Parameter):
        yield from _handed(call, changed, "")
        return
    name, _, rest = changed.partition(".")
    parameter = _parameter(function, name) if function is not None else None
    yield from (changed,) if parameter is None else _handed(call, parameter, rest)


def _handed(call: ast.Call, parameter: _Parameter, rest: str) -> Iterator[str]:
    """What a call gives a parameter, or the part `rest` of it."""
    for given in _given(call, parameter):
        whole = dotted(given)
        yield from may_alias(given) if whole is None or not rest else (f"{whole}.{rest}",)


def _given(call: ast.Call, parameter: _Parameter) -> list[ast.expr]:
    """The expressions of a call that a parameter may get its value from."""
    if parameter.kind == "receiver":
        called = call.func.attr if isinstance(call.func, ast.Attribute) else None
        itself = parameter.is_forward and called not in FORWARDS
        return [call.func.value if isinstance(call.func, ast.Attribute) and not itself else call.func]
    if parameter.kind == "keywords":
        return [k.value for k in call.keywords]
    keywords = [k.value for k in call.keywords if k.arg in {parameter.name, None}]
    starred = next((n for n, a in enumerate(call.args) if isinstance(a, ast.Starred)), None)
    at = parameter.position
    if parameter.kind == "several":
        return [*call.args[at:], *(call.args[starred:] if starred is not None else ())]
    if starred is not None and at >= starred:
        return [*call.args[starred:], *keywords]
    return [*call.args[at : at + 1], *keywords]
