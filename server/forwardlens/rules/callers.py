"""Which loop runs a function again and again: that around its only call, or around the one that nearly always ran it.

A helper that is called from several places alike is no loop, however often it ran.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from forwardlens.rules.constants import attribute_value, method_of
from forwardlens.rules.contract import Context
from forwardlens.rules.evidence import Sites, ran_functions, sites_of
from forwardlens.rules.operations import FORWARDS
from forwardlens.rules.repeated import body
from forwardlens.source.dataflow import bindings
from forwardlens.source.tree import Function, Looping, Tree, dotted, tree_of, walk

# A call in a loop stands for a function that it ran so many times as often as all its other calls together.
_NEARLY_ALWAYS = 4


@dataclass(frozen=True, eq=False)
class _Ran:
    """What of a file ran in the forward: its functions, and how often each call in them."""

    functions: frozenset[Function]
    calls: Mapping[ast.Call, int]


def loop_around(sites: Sites, node: ast.AST) -> tuple[Looping, ast.AST] | None:
    """The innermost loop that repeats `node`, and the node in it that does: `node`, or the call of its function."""
    return _repeated(sites.tree, _ran_here(sites), node)


def _ran_here(sites: Sites) -> _Ran:
    """What of this file ran in the forward. Calls in other functions do not count: they repeat nothing."""
    return sites.context.once(_own)


def _own(context: Context) -> _Ran:
    tree, sites = tree_of(context.source), sites_of(context)
    own = {*tree.functions()} if tree is not None else set[Function]()
    calls = (
        {node: cost.calls for node, cost in sites.items() if isinstance(node, ast.Call)} if sites is not None else {}
    )
    return _Ran(frozenset(f for f in ran_functions(context) if f in own), calls)


@lru_cache(maxsize=4096)
def _repeated(tree: Tree, ran: _Ran, node: ast.AST) -> tuple[Looping, ast.AST] | None:
    seen = set[ast.AST]()
    while True:
        loop = next(tree.loops(node), None)
        if loop is not None:
            return loop, node
        function = tree.function(node)
        if function is None or function in seen:
            return None
        seen.add(function)
        call = _main_call(tree, ran, function)
        if call is None:
            return None
        node = call


def rounds_of(sites: Sites, node: ast.AST) -> int:
    """How often a node ran inside one loop, its own or that around its function's only call. 0 outside of loops."""
    cost, found = sites.cost(node), loop_around(sites, node)
    if cost is None or found is None:
        return 0
    return cost.calls_per_entry if found[1] is node else cost.calls


def by_loop(sites: Sites, nodes: Iterable[ast.AST]) -> dict[Looping, list[ast.AST]]:
    """`nodes` grouped by the innermost loop that repeats each. Those in no loop are left out."""
    groups: dict[Looping, list[ast.AST]] = defaultdict(list)
    for node in nodes:
        found = loop_around(sites, node)
        if found is not None:
            groups[found[0]].append(node)
    return groups


def in_loop(sites: Sites, loop: Looping, node: ast.AST) -> ast.AST:
    """`node`, or the call in the loop that runs it."""
    while loop not in sites.tree.loops(node):
        function = sites.tree.function(node)
        call = _main_call(sites.tree, _ran_here(sites), function) if function is not None else None
        if call is None:
            return node
        node = call
    return node


def parts_of(sites: Sites, loop: Looping) -> list[ast.AST]:
    """What a loop runs in every round, with the bodies of the functions that it repeats."""
    parts, seen = [*body(loop)], set[ast.AST]()
    for part in parts:
        for call in (n for n in walk(part) if isinstance(n, ast.Call)):
            function = repeated_function(sites, call)
            if function is not None and function not in seen:
                seen.add(function)
                parts += function.body
    return parts


def only_call(sites: Sites, function: Function) -> ast.Call | None:
    """The only call of a function of this file in what ran, or of the only module that has it as its `forward`."""
    return _only_call(sites.tree, _ran_here(sites), function)


@lru_cache(maxsize=1024)
def _only_call(tree: Tree, ran: _Ran, function: Function) -> ast.Call | None:
    """The only call of a function in the functions that `ran`, or of the only module that has it as its `forward`."""
    if _is_forward(tree, function):
        return _only_call_of_module(tree, ran, function)
    calls = _calls(tree, ran, function)
    return calls[0] if len(calls) == 1 else None


@lru_cache(maxsize=1024)
def _main_call(tree: Tree, ran: _Ran, function: Function) -> ast.Call | None:
    """The only call of a function, or the one in a loop that ran it nearly always."""
    calls: Sequence[ast.Call] = () if _is_forward(tree, function) else _calls(tree, ran, function)
    if len(calls) < 2:
        return _only_call(tree, ran, function)
    most = max(calls, key=lambda call: ran.calls.get(call, 0))
    others = sum(ran.calls.get(call, 0) for call in calls if call is not most)
    often = ran.calls.get(most, 0) >= _NEARLY_ALWAYS * max(1, others)
    return most if often and next(tree.loops(most), None) is not None else None


def _is_forward(tree: Tree, function: Function) -> bool:
    return tree.owner(function) is not None and function.name in FORWARDS


def _may_run(tree: Tree, ran: _Ran, node: ast.AST) -> bool:
    around = tree.function(node)
    return around is None or around in ran.functions


def _calls(tree: Tree, ran: _Ran, function: Function) -> Sequence[ast.Call]:
    """The calls of a function in the functions that `ran`; none if it is used in any other way."""
    owner = tree.owner(function)
    found = [
        n
        for n in _named(tree).get((function.name, owner is not None), ())
        if (owner is None or _may_be_of(tree, n, owner)) and _may_run(tree, ran, n)
    ]
    objects = {"self", owner.name} if owner is not None and is_static(function) else {"self"}
    calls: list[ast.Call] = []
    for node in found:
        call = tree.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node:
            return ()
        if owner is not None and not _is_own_method(tree, call, owner, objects):
            return ()
        calls.append(call)
    return calls


def _is_own_method(tree: Tree, call: ast.Call, owner: ast.ClassDef, objects: set[str]) -> bool:
    function = tree.function(call)
    own = isinstance(call.func, ast.Attribute) and dotted(call.func.value) in objects
    return own and function is not None and tree.owner(function) is owner


def _only_call_of_module(tree: Tree, ran: _Ran, function: Function) -> ast.Call | None:
    """`self.part(x)` where `self.part = Part()` is the only object of the function's class that the file makes."""
    owner = tree.owner(function)
    assert owner is not None
    made = _named(tree).get((owner.name, False), [])
    parent = tree.parent(made[0]) if len(made) == 1 else None
    store = tree.parent(parent) if isinstance(parent, ast.Call) and parent.func is made[0] else None
    if not isinstance(store, ast.Assign) or len(store.targets) != 1 or not isinstance(store.targets[0], ast.Attribute):
        return None
    name = store.targets[0].attr
    around = tree.function(store)
    holder = tree.owner(around) if around is not None else None
    uses = _named(tree).get((name, True), [])
    uses = [n for n in uses if holder is None or _may_be_of(tree, n, holder)]
    read = [n for n in uses if n is not store.targets[0] and _may_run(tree, ran, n)]
    call = tree.parent(read[0]) if len(read) == 1 else None
    if not isinstance(call, ast.Call) or call.func is not read[0] or dotted(read[0]) != f"self.{name}":
        return None
    return call if attribute_value(tree, call, name) is parent else None


def function_of(sites: Sites, call: ast.Call) -> Function | None:
    """The function of this file that a call runs, if that is the function's only call in what ran."""
    function = repeated_function(sites, call)
    return function if function is not None and only_call(sites, function) is call else None


def repeated_function(sites: Sites, call: ast.Call) -> Function | None:
    """The function of this file that a call runs, if nothing else in what ran calls it, or hardly ever."""
    function = _by_call(sites.tree, _ran_here(sites)).get(call)
    caller = sites.tree.function(call)
    shadowed = isinstance(call.func, ast.Name) and caller is not None and bindings(caller, call.func.id)
    return None if shadowed or function is caller else function


def is_static(function: Function) -> bool:
    """Whether a method is not given the object that it is called on."""
    return [dotted(d) for d in function.decorator_list] == ["staticmethod"]


def is_property(function: Function) -> bool:
    """Whether a method runs whenever the attribute of its name is read."""
    return [dotted(d) for d in function.decorator_list] == ["property"]


def own_function(sites: Sites, call: ast.Call) -> Function | None:
    """The function of this file that a call runs: of those that ran, the only one of its name, or of its own class."""
    place, caller = dotted(call.func), sites.tree.function(call)
    if place is None or caller is None:
        return None
    owner = sites.tree.owner(caller)
    method = place.startswith("self.") and owner is not None
    found = sites.context.once(_ran).get(place.removeprefix("self.") if method else place, [])
    if method and owner is not None and len(found) > 1:
        found = _of_class(sites.tree, found, owner)
    if len(found) != 1 or (sites.tree.owner(found[0]) is not None) != method:
        return None
    return found[0] if method or not bindings(caller, place) else None


def called_function(sites: Sites, call: ast.Call) -> Function | None:
    """The function of this file that a call runs, or the `forward` of the module of this file that is called."""
    function, place = own_function(sites, call), dotted(call.func)
    if function is not None or place is None or not place.startswith("self.") or place.count(".") != 1:
        return function
    made = attribute_value(sites.tree, call, place.removeprefix("self."))
    name = dotted(made.func) if isinstance(made, ast.Call) else None
    classes = [n for n in sites.tree.module.body if isinstance(n, ast.ClassDef) and n.name == name]
    return method_of(classes[0], "forward") if len(classes) == 1 else None


def _of_class(tree: Tree, methods: Sequence[Function], owner: ast.ClassDef) -> Sequence[Function]:
    """The method of the class `owner` itself, unless another one may be that of an object of the class too."""
    own = [m for m in methods if tree.owner(m) is owner]
    others = (tree.owner(m) for m in methods if m not in own)
    related = any(o is None or (o.bases and owner.name in {dotted(b) for b in o.bases}) for o in others)
    return methods if related else own


def own_property(sites: Sites, node: ast.Attribute) -> Function | None:
    """The function of this file that reading `self.name` runs: of those that ran, the only one of its name."""
    caller, found = sites.tree.function(node), sites.context.once(_ran).get(node.attr, [])
    inside = caller is not None and sites.tree.owner(caller) is not None and dotted(node.value) == "self"
    if not inside or not isinstance(node.ctx, ast.Load) or len(found) != 1 or sites.tree.owner(found[0]) is None:
        return None
    return found[0] if is_property(found[0]) else None


def _ran(context: Context) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for function in context.once(_own).functions:
        found.setdefault(function.name, []).append(function)
    return found


def arguments_of(function: Function, call: ast.Call) -> dict[str, ast.expr] | None:
    """What a call gives each parameter; None if that is not plain to see. Defaults have to be literals."""
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args)]
    if spec.vararg or spec.kwarg or spec.kwonlyargs or any(isinstance(a, ast.Starred) for a in call.args):
        return None
    if isinstance(call.func, ast.Attribute) and not is_static(function):
        if not names or names[0] != "self":
            return None
        names = names[1:]
    given = dict(zip(names, call.args, strict=False))
    for keyword in call.keywords:
        if keyword.arg is None or keyword.arg in given or keyword.arg not in names:
            return None
        given[keyword.arg] = keyword.value
    defaults = dict(zip(reversed(names), reversed(spec.defaults), strict=False))
    for name in names:
        if name not in given:
            if not isinstance(defaults.get(name), ast.Constant):
                return None
            given[name] = defaults[name]
    return given if len(call.args) <= len(names) else None


@lru_cache(maxsize=64)
def _by_call(tree: Tree, ran: _Ran) -> dict[ast.Call, Function]:
    calls = ((_main_call(tree, ran, function), function) for function in tree.functions())
    return {call: function for call, function in calls if call is not None}


def _may_be_of(tree: Tree, node: ast.AST, owner: ast.ClassDef) -> bool:
    """Whether an attribute may be one of the class `owner`: not if it is that of the `self` of an unrelated class."""
    function = tree.function(node)
    other = tree.owner(function) if function is not None else None
    if not isinstance(node, ast.Attribute) or dotted(node.value) != "self" or other is None or other is owner:
        return True
    bases = {dotted(base) for base in (*owner.bases, *other.bases)}
    return bool(bases & {owner.name, other.name})


@lru_cache(maxsize=64)
def _named(tree: Tree) -> dict[tuple[str, bool], list[ast.AST]]:
    """Every name of a file, and every attribute (True), where it stands."""
    found: dict[tuple[str, bool], list[ast.AST]] = defaultdict(list)
    for node in walk(tree.module):
        if isinstance(node, ast.Attribute):
            found[node.attr, True].append(node)
        elif isinstance(node, ast.Name):
            found[node.id, False].append(node)
    return found
